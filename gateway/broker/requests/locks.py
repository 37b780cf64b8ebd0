"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: orderly consumers claiming queues.

Upstream: ``AdminBrokerProcessor``; who owns what is decided in ``gateway.membership.queue_locks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Answer
from wire.bodies.locks import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from gateway.membership.queue_locks import QueueLocks
    from gateway.remoting.dispatch import Dispatch, Request

MAX_QUEUES_PER_REQUEST = 65_536


class LockRequests:
    """Answers LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

    def __init__(self, *, locks: QueueLocks) -> None:
        self._locks = locks

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.LOCK_BATCH_MQ, None, self.lock)
        dispatch.answers(RequestCode.UNLOCK_BATCH_MQ, None, self.unlock)

    def lock(self, request: Request, _header: None) -> Answer:
        """Claim queues or refresh the claim; the answer names those that are the client's now."""
        body = LockBatchRequest.parse(request.command.body)
        _check(body)
        granted = self._locks.lock(body.consumer_group, body.client_id, body.queues)
        return Answer(body=LockBatchResponse(granted).build())

    def unlock(self, request: Request, _header: None) -> Answer:
        """Give the client's own claims back."""
        body = UnlockBatchRequest.parse(request.command.body)
        _check(body)
        self._locks.unlock(body.consumer_group, body.client_id, body.queues)
        return Answer()


def _check(body: LockBatchRequest | UnlockBatchRequest) -> None:
    if not body.consumer_group or not body.client_id:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "consumerGroup and clientId must be given")
    if len(body.queues) > MAX_QUEUES_PER_REQUEST:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"{len(body.queues)} queues in one request, the limit is {MAX_QUEUES_PER_REQUEST}",
        )
