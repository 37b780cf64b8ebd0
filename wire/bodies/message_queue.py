"""A queue as clients name it: topic, broker and number. As a map key, a queue is an object (``fastjson``).

Orderly consumers claim queues with LOCK_BATCH_MQ and give them back with UNLOCK_BATCH_MQ.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, RequestBody, field


class MessageQueue(Body):
    """One queue of a topic on one broker (upstream ``MessageQueue``)."""

    topic: str
    broker_name: str
    queue_id: int


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
