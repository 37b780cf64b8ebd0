"""Writes ``config/transactionMetrics`` at a stop, so that an Apache RocketMQ broker goes on counting correctly.

The gateway itself never reads it: it counts what is pending at each start.
"""

from __future__ import annotations

from pathlib import Path

from gateway.clock import Milliseconds
from gateway.metadata.saved.json_file import JsonFile
from gateway.transaction.counts import TransactionCounts
from wire.bodies.topics import DataVersion
from wire.disk.transaction_metrics import TopicCount, TransactionMetricsFile

FILE_NAME = "transactionMetrics"
"""Never change: it is Apache RocketMQ's."""


class MetricsFile:
    """The file of one store directory.

    :param directory: its ``config``.
    """

    def __init__(self, directory: Path, counts: TransactionCounts, clock_ms: Milliseconds) -> None:
        self._file = JsonFile(directory / FILE_NAME)
        self._counts = counts
        self._clock_ms = clock_ms

    def persist_now(self) -> None:
        """Write it; blocks. Without any transaction since the start, only a file that is there is replaced.

        :raises OSError: the old content is still there.
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
