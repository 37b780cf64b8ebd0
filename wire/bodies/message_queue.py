"""A queue as clients name it: topic, broker and number. As a map key, a queue is an object (``fastjson``)."""

from __future__ import annotations

from wire.bodies.declare import Body


class MessageQueue(Body):
    """One queue of a topic on one broker (upstream ``MessageQueue``)."""

    topic: str
    broker_name: str
    queue_id: int
