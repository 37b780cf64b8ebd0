"""``config/transactionMetrics``: how many half messages without an outcome each topic has (5.x).

Apache RocketMQ goes on counting from it after a change of hands; the gateway counts anew at each start.
Upstream: ``TransactionMetrics``.
"""

from __future__ import annotations

from collections.abc import Mapping

from wire.bodies.declare import JsonObject, field
from wire.bodies.topics import DataVersion
from wire.disk.config_json import ConfigFile


class TopicCount(JsonObject):
    """Half messages of one real topic, and when that changed (ms)."""

    count: int = 0
    time_stamp: int = 0


class TransactionMetricsFile(ConfigFile):
    """The file."""

    transaction_count: Mapping[str, TopicCount] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
