"""Requests of operators for disk space: delete expired messages now, and delete what is left of queues.

Upstream: ``AdminBrokerProcessor``. There is one difference: a consume queue whose messages are all expired keeps its
last file. Without this file its offsets would start at 0 again, and groups would skip or repeat messages.
"""

from __future__ import annotations

from gateway.broker.awaiting import delete_queues
from gateway.broker.desk import DeskRequests
from gateway.remoting.declared import CLUSTER_UPDATE, SERVED
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from wire.codes import RequestCode


class CleaningRequests(DeskRequests):
    """Answers CLEAN_EXPIRED_CONSUMEQUEUE (306), CLEAN_UNUSED_TOPIC (316) and DELETE_EXPIRED_COMMITLOG (329)."""

    @answers(RequestCode.DELETE_EXPIRED_COMMITLOG, None, CLUSTER_UPDATE, slave=SERVED)
    def delete_expired(self, _request: Request, _header: None) -> Answer:
        """Let the next rounds of retention delete expired messages at any hour; the answer comes before they do."""
        self._desk.expiry.ask()
        return Answer()

    @answers(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, None, CLUSTER_UPDATE, slave=SERVED)
    async def clean_queues(self, _request: Request, _header: None) -> Answer:
        """Delete the files of consume queues that refer only to deleted messages."""
        self._desk.store.deletion.detach_queue_files()
        await self._desk.expiry.remove_other_files()
        return Answer()

    @answers(RequestCode.CLEAN_UNUSED_TOPIC, None, CLUSTER_UPDATE)
    async def clean_topics(self, _request: Request, _header: None) -> Answer:
        """Delete the queues of topics that no longer exist; light queues have no topic of their own and are kept."""
        found = sorted({topic for topic, _ in self._desk.store.queues()})
        await delete_queues(self._desk.store, filter(self._desk.topics.is_gone, found), self._desk.in_thread)
        return Answer()
