"""Deferreds for callbacks of the lower layers, so that a request's method can await them.

Tables and store report through plain callables, and so need no reactor. Requests that are not frequent are coroutines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.in_thread import InThread
from gateway.metadata.saved.write_behind import Saved
from gateway.store.message_store import MessageStore
from wire.codes import ResponseCode


async def saved(persist: Callable[[Saved], None], what: str) -> None:
    """Wait until a table's changes are on disk.

    :raises RequestRefused: SYSTEM_ERROR: the change is in force, but a restart would lose it.
    """
    waiting: Deferred[BaseException | None] = Deferred()
    persist(waiting.callback)
    failure = await waiting
    if failure is not None:
        raise not_on_disk(what, failure)


def not_on_disk(what: str, failure: object) -> RequestRefused:
    """Return the refusal for a change that is in force but would be lost by a restart."""
    return RequestRefused(
        ResponseCode.SYSTEM_ERROR, f"{what}: in force, but not written to disk ({failure}); it will be tried again"
    )


async def delete_queues(
    store: MessageStore, topics: Iterable[str], in_thread: InThread, log_end: int | None = None
) -> None:
    """Delete the queues of topics; return when these deletions, and all earlier ones, are on disk.

    :param log_end: the offset of the log below which the messages of the topics are gone, if it is known.
    :raises RequestRefused: SYSTEM_ERROR: a deletion is not on disk; the other topics are deleted all the same.
    """
    refused: RequestRefused | None = None
    for topic in topics:
        waiting: Deferred[BaseException | None] = Deferred()
        store.delete_topic(topic, in_thread, waiting.callback, log_end=log_end)
        failure = await waiting
        if failure is not None:
            refused = RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"queues of topic {topic} are not deleted on disk ({failure}); they may come back at the next start",
            )
    if refused is not None:
        raise refused
    await saved(partial(store.deletion.finish, in_thread), "an earlier deletion of queues")
