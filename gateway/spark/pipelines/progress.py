"""The progress of a stream: a bar on a terminal, otherwise a line now and then.

Spark has its own bar for batch queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TextIO

LOOK_S: Final = 0.5
"""Seconds between questions to Spark."""
_LINE_S: Final = 30.0
"""Seconds between lines if there is no terminal."""
_BAR: Final = 30


class StreamProgress:
    """The row count of a query, taken from its progress reports and shown to the user.

    :param now: a clock that does not go back, seconds.
    """

    def __init__(self, out: TextIO, now: Callable[[], float]) -> None:
        self._out = out
        self._now = now
        self._begun = self._shown_at = now()
        self._batches: dict[int, int] = {}
        self._left: int | None = None

    @property
    def rows(self) -> int:
        """The number of rows read so far."""
        return sum(self._batches.values())

    def follow(self, query: Any) -> None:
        """Wait for the end of a query, and show its progress.

        :raises pyspark.errors.StreamingQueryException: the query failed.
        """
        try:
            while not query.awaitTermination(LOOK_S):
                self.take(query.recentProgress)
                self._show()
            self.take(query.recentProgress)
        finally:
            if self._out.isatty():
                self._out.write("\r\033[K")
                self._out.flush()

    def take(self, reports: Any) -> None:
        """Read Spark's progress reports; a report that was seen before counts once."""
        for report in reports:
            self._batches[report["batchId"]] = max(report["numInputRows"], self._batches.get(report["batchId"], 0))
            self._left = backlog(report["sources"][0]) if report["sources"] else self._left

    def text(self) -> str:
        """Return the progress as one line."""
        rate = self.rows / max(self._now() - self._begun, 0.001)
        said = f"{self.rows:,} rows in {len(self._batches)} batches, {rate:,.0f} rows/s"
        if self._left is None:
            return said
        share = self.rows / (self.rows + self._left) if self.rows + self._left else 1.0
        filled = round(share * _BAR)
        return f"[{'=' * filled}{' ' * (_BAR - filled)}] {share:4.0%}  {said}"

    def _show(self) -> None:
        if self._out.isatty():
            self._out.write(f"\r\033[K{self.text()}")
            self._out.flush()
        elif self._now() - self._shown_at >= _LINE_S:
            self._shown_at = self._now()
            self._out.write(self.text() + "\n")


def backlog(source: Mapping[str, Any]) -> int | None:
    """Return the number of offsets from the end of a batch to the ends of the queues; None if the report lacks them."""
    ends, latest = source["endOffset"], source["latestOffset"]
    if not isinstance(ends, str) or not isinstance(latest, str):
        return None
    done = json.loads(ends)["q"]
    left = 0
    for topic, brokers in json.loads(latest)["q"].items():
        for broker, queues in brokers.items():
            for queue, offset in queues.items():
                left += max(offset - done.get(topic, {}).get(broker, {}).get(queue, 0), 0)
    return left
