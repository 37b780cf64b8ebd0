"""Deletion of a topic's queues in a form that a request can await."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.in_thread import InThread
from gateway.store.message_store import MessageStore
from wire.codes import ResponseCode


async def delete_queues(store: MessageStore, topic: str, in_thread: InThread) -> None:
    """Delete the queues of a topic; return when the deletion is on disk.

    :raises RequestRefused: SYSTEM_ERROR: the deletion is not on disk.
    """
    waiting: Deferred[BaseException | None] = Deferred()
    store.delete_topic(topic, in_thread, waiting.callback)
    failure = await waiting
    if failure is not None:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"the queues of topic {topic} are not deleted on disk ({failure}); they may come back at the next start",
        )
