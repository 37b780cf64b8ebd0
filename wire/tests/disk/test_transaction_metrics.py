"""The counts of half messages that Apache RocketMQ 5.x keeps."""

from __future__ import annotations

import json

from wire.bodies.topics import DataVersion
from wire.disk.config_json import TopicCount, TransactionMetricsFile


def test_the_members_are_apaches() -> None:
    file = TransactionMetricsFile({"orders": TopicCount(3, 111)}, DataVersion(2, 222))
    assert json.loads(file.build()) == {
        "dataVersion": {"counter": 2, "stateVersion": 0, "timestamp": 222},
        "transactionCount": {"orders": {"count": 3, "timeStamp": 111}},
    }
    assert TransactionMetricsFile.parse(file.build()) == file
