"""``config/transactionMetrics``: the number of half messages without an outcome, for each topic (5.x).

Apache RocketMQ goes on counting from this file after a data directory changes hands. The gateway counts anew at each
start. Upstream: ``TransactionMetrics``.
"""

from __future__ import annotations

from collections.abc import Mapping

from wire.bodies.declare import JsonObject, field
from wire.bodies.topics import DataVersion
from wire.disk.config_json import ConfigFile


class TopicCount(JsonObject):
    """The number of half messages of one real topic, and the time of the last change (ms)."""

    count: int = 0
    time_stamp: int = 0


class TransactionMetricsFile(ConfigFile):
    """The file ``config/transactionMetrics``."""

    transaction_count: Mapping[str, TopicCount] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
