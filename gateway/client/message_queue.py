"""One queue of a topic on one broker."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Queues are ordered by topic, broker name and number, as Java orders them.

    A tuple, since tables of queues are used for every read.

    :param topic: the name without the namespace of the client's settings where a producer names the queue; otherwise
        the name that brokers know.
    :param broker_name: the ``brokerName`` of the broker, not its address.
    :param queue_id: from 0.
    """

    topic: str
    broker_name: str
    queue_id: int
