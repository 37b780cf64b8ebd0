"""One queue of a topic on one broker."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker; ordered by topic, broker name and number, as Java orders it.

    A tuple, since tables of queues are looked up for every read.
    """

    topic: str
    broker_name: str
    queue_id: int
