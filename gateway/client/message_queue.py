"""One queue of a topic on one broker."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker; ordered by topic, broker name and number, as Java orders it.

    A tuple, since tables of queues are looked up for every read.

    :param topic: without the namespace of the client's settings where a producer names it, else as brokers know it.
    :param broker_name: ``brokerName`` of the broker, not its address.
    :param queue_id: from 0.
    """

    topic: str
    broker_name: str
    queue_id: int
