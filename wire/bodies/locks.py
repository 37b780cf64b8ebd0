"""Claims of orderly consumers on queues: LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wire.bodies.declare import Body
from wire.bodies.message_queue import MessageQueue as MessageQueue


@dataclass(frozen=True, slots=True)
class LockBatchRequest(Body):
    """Queues a client wants to consume alone."""

    consumer_group: str
    client_id: str
    queues: Sequence[MessageQueue] = field(default=(), metadata={"json": "mqSet"})
    only_this_broker: bool = False


@dataclass(frozen=True, slots=True)
class UnlockBatchRequest(Body):
    """Queues a client gives back."""

    consumer_group: str
    client_id: str
    queues: Sequence[MessageQueue] = field(default=(), metadata={"json": "mqSet"})
    only_this_broker: bool = False


@dataclass(frozen=True, slots=True)
class LockBatchResponse(Body):
    """The queues that are the client's now."""

    queues: Sequence[MessageQueue] = field(default=(), metadata={"json": "lockOKMQSet"})
