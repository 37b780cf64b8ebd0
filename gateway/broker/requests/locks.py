"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: orderly consumers claim queues.

Upstream: ``AdminBrokerProcessor``. ``gateway.membership.queue_locks`` decides which client owns a queue.
"""

from __future__ import annotations

from typing import Any

from gateway.access.needs import Entries
from gateway.broker.desk import DeskRequests
from gateway.errors import RequestRefused
from gateway.membership.heartbeats import MAX_CLIENT_ID_CHARACTERS
from gateway.remoting.declared import SUB, Kind, Need, needs
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text
from gateway.remoting.requests import answers
from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, MessageQueue, UnlockBatchRequest
from wire.codes import RequestCode, ResponseCode

MAX_QUEUES_PER_REQUEST = 16_384
"""The number of queues that one request may claim or give back."""


class LockRequests(DeskRequests):
    """Answers LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

    @answers(RequestCode.LOCK_BATCH_MQ, None, needs(in_body="Group Sub, and Topic Sub of each queue"))
    async def lock(self, request: Request, _header: None) -> Answer:
        """Claim queues or renew the claims; the answer names the queues that the client owns now.

        A queue that does not exist is given to no client. The client asks again within 20 s, and the queue may exist
        then.
        """
        body = LockBatchRequest.parse(request.command.body)
        _check(body)
        request.require(Need(Kind.GROUP, body.consumer_group, SUB))
        topics = Entries(request).topics(body.consumer_group, (queue.topic for queue in body.queues))
        granted: list[MessageQueue] = []
        if self._desk.groups.get(body.consumer_group) is not None:
            wanted = [queue for queue in body.queues if queue.topic in topics and self._exists(queue)]
            granted = self._desk.locks.lock(body.consumer_group, body.client_id, wanted)
        text: Any = await self._desk.turns.run(
            list_text("granted locks", (queue.to_json() for queue in granted)), request.channel
        )
        return Answer(body=LockBatchResponse(text).build())

    def _exists(self, queue: MessageQueue) -> bool:
        topic = self._desk.topics.get(queue.topic)
        return topic is not None and 0 <= queue.queue_id < max(topic.read_queue_nums, topic.write_queue_nums)

    @answers(RequestCode.UNLOCK_BATCH_MQ, None, needs(in_body="Group Sub"))
    def unlock(self, request: Request, _header: None) -> Answer:
        """Give back the queues that the client itself has claimed."""
        body = UnlockBatchRequest.parse(request.command.body)
        _check(body)
        request.require(Need(Kind.GROUP, body.consumer_group, SUB))
        self._desk.locks.unlock(body.consumer_group, body.client_id, body.queues)
        return Answer()


def _check(body: LockBatchRequest | UnlockBatchRequest) -> None:
    if not body.consumer_group or not body.client_id:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "consumerGroup and clientId must be given")
    if len(body.client_id) > MAX_CLIENT_ID_CHARACTERS:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, f"clientId has more than {MAX_CLIENT_ID_CHARACTERS} characters"
        )
    if len(body.queues) > MAX_QUEUES_PER_REQUEST:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"{len(body.queues)} queues in one request, the limit is {MAX_QUEUES_PER_REQUEST}",
        )
