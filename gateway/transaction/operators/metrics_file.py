"""Write ``config/transactionMetrics`` at a stop, so that an Apache RocketMQ broker continues with correct counts.

The gateway itself never reads the file, because each start counts what is pending.
"""

from __future__ import annotations

from pathlib import Path

from gateway.clock import Milliseconds
from gateway.metadata.saved.json_file import JsonFile
from gateway.transaction.counts import TransactionCounts
from wire.bodies.topics import DataVersion
from wire.disk.config_json import TopicCount, TransactionMetricsFile

FILE_NAME = "transactionMetrics"
"""The name of Apache RocketMQ's file. Never change the name."""


class MetricsFile:
    """The file of one store directory.

    :param directory: the folder ``config`` of the store directory.
    """

    def __init__(self, directory: Path, counts: TransactionCounts, clock_ms: Milliseconds) -> None:
        self._file = JsonFile(directory / FILE_NAME)
        self._counts = counts
        self._clock_ms = clock_ms

    def persist_now(self) -> None:
        """Write the file; blocks. If there was no transaction since the start, only an existing file is replaced.

        :raises OSError: the file could not be written and still has its old content.
        """
        if not self._counts.by_topic and not self._file.path.exists():
            return
        now_ms = self._clock_ms()
        counts = {
            numbers.name: TopicCount(int(numbers.half_messages.value), now_ms)
            for numbers in self._counts.by_topic
            if numbers.half_messages.value
        }
        self._file.write(TransactionMetricsFile(counts, DataVersion(1, now_ms)).build())
