"""Claims of orderly consumers on queues: LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, RequestBody, field
from wire.bodies.message_queue import MessageQueue as MessageQueue


class LockBatchRequest(RequestBody):
    """The queues that a client wants to consume alone."""

    consumer_group: str
    client_id: str
    queues: Sequence[MessageQueue] = field(default=(), name="mqSet")
    only_this_broker: bool = False


class UnlockBatchRequest(RequestBody):
    """The queues that a client gives back."""

    consumer_group: str
    client_id: str
    queues: Sequence[MessageQueue] = field(default=(), name="mqSet")
    only_this_broker: bool = False


class LockBatchResponse(Body):
    """The queues that the client holds now."""

    queues: Sequence[MessageQueue] = field(default=(), name="lockOKMQSet")
