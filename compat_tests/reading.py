"""A topic read from its begin, by whoever only wants to know what is there."""

from __future__ import annotations

from collections.abc import Set

from compat_tests.environment import wait_until
from gateway.client import LitePullConsumer


def read_until_all(nameserver: str, topic: str, bodies: Set[bytes]) -> set[str]:
    """Read every queue of a topic until all of ``bodies`` were there; the names of the brokers that have its queues."""
    with LitePullConsumer(f"reader_{topic}", namesrv=nameserver) as consumer:
        queues = consumer.message_queues(topic)
        consumer.assign(queues)
        for queue in queues:
            consumer.seek_to_begin(queue)
        received: set[bytes] = set()

        def drained() -> bool:
            received.update(message.body for message in consumer.poll(0.5))
            return received >= bodies

        wait_until(drained, f"every acknowledged message of {topic}")
    return {queue.broker_name for queue in queues}
