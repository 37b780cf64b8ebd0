"""Registrations as brokers send them, with everything filled in that a test does not care about."""

from __future__ import annotations

from typing import Any

from gateway.nameserver.route_table import Registration
from wire.bodies.topics import DataVersion, TopicConfig

SYSTEM_TOPICS = ("TBW102", "SELF_TEST_TOPIC")


def topics(*names: str, **config: Any) -> dict[str, TopicConfig]:
    """The system topics and these, all with the same configuration."""
    return {name: TopicConfig(topic_name=name, **config) for name in (*SYSTEM_TOPICS, *names)}


def registration(*names: str, counter: int = 1, **rest: Any) -> Registration:
    """Broker ``broker-a`` with these topics; anything else by name."""
    values: dict[str, Any] = {
        "cluster": "DefaultCluster",
        "broker_name": "broker-a",
        "broker_id": 0,
        "address": "192.0.2.1:10911",
        "ha_address": "192.0.2.1:10912",
        "topics": topics(*names),
        "data_version": DataVersion(counter=counter, timestamp=1_700_000_000_000),
    }
    values.update(rest)
    return Registration(**values)


def slave(*names: str, broker_id: int = 1, **rest: Any) -> Registration:
    """A slave of ``broker-a``."""
    address = f"192.0.2.{broker_id + 1}:10911"
    return registration(*names, broker_id=broker_id, address=address, ha_address=f"{address}2", **rest)
