"""The metrics of transactions.

The metrics of half messages, commits, rollbacks and latency are those of Apache RocketMQ 5.x, for each real topic and
with the same bounds. The broker's clock measures the latency, from storing the half message to its commit. Upstream
takes the start of the latency from the client's clock.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.clock import Milliseconds
from gateway.metadata.saved.json_file import JsonFile
from gateway.telemetry.metrics import Distribution, Registry, Series
from wire.bodies.topics import DataVersion
from wire.disk.config_json import TopicCount, TransactionMetricsFile

LATENCY_BOUNDS_S = (5, 60, 600, 3_600, 43_200, 86_400)
"""The bounds of upstream's ``commitLatencyBuckets`` (``BrokerMetricsManager``), in seconds."""


class TopicNumbers:
    """The metrics of one real topic. A plain class for speed, because every outcome writes them."""

    __slots__ = ("commits", "half_messages", "latency_s", "name", "rollbacks")

    def __init__(
        self, name: str, half_messages: Series, commits: Series, rollbacks: Series, latency_s: Distribution
    ) -> None:
        self.name = name
        self.half_messages = half_messages
        self.commits = commits
        self.rollbacks = rollbacks
        self.latency_s = latency_s


class TransactionCounts:
    """The metrics of transactions, declared once in a registry. Callers write ``counts.commits.value += 1``.

    The plain ``value`` of a metric that has topics is the sum over all topics.
    """

    def __init__(self, registry: Registry) -> None:
        self.half_messages = registry.gauge("rocketmq_half_messages", "Half messages without an outcome")
        self.commits = registry.counter("rocketmq_commit_messages_total", "Half messages committed")
        self.rollbacks = registry.counter("rocketmq_rollback_messages_total", "Half messages rolled back")
        self.latency_s = registry.histogram(
            "rocketmq_finish_message_latency", "Seconds from storing a half message to its commit", LATENCY_BOUNDS_S
        )
        self.discards = registry.counter(
            "rocketmq_gateway_discarded_messages_total", "Half messages given up without an outcome"
        )
        self.repeats = registry.counter(
            "rocketmq_gateway_repeated_outcomes_total", "Outcomes that were already applied"
        )
        self.conflicts = registry.counter(
            "rocketmq_gateway_transaction_conflicts_total", "Outcomes refused because they contradict the first one"
        )
        checks = registry.counter("rocketmq_gateway_transaction_checks_total", "Checks by what became of them")
        self.checks_sent = checks.at(result="sent")
        self.checks_unknown = checks.at(result="unknown")
        self.checks_lost = checks.at(result="unanswered")
        self.manual = registry.counter("rocketmq_gateway_manual_outcomes_total", "Outcomes that an operator decided")
        self._registry = registry
        self.by_topic: list[TopicNumbers] = []
        """The numbers of each topic, indexed by the number that ``topic`` returns."""
        self._topic_numbers: dict[str, int] = {}

    def watch(self, oldest_s: Callable[[], float], in_flight: Callable[[], int], waiting: Callable[[], int]) -> None:
        """Declare the figures that are asked for when the metrics are read.

        :param oldest_s: the age of the oldest half message without an outcome, in seconds.
        :param in_flight: the number of checks that were sent and not answered yet.
        :param waiting: the number of half messages that a state table or database does not know yet.
        """
        self._registry.watch(
            "rocketmq_gateway_transaction_oldest_half_seconds",
            "Age of the oldest half message without an outcome",
            oldest_s,
        )
        self._registry.watch(
            "rocketmq_gateway_transaction_checks_in_flight", "Checks sent and not answered yet", in_flight
        )
        self._registry.watch(
            "rocketmq_gateway_transaction_changes_waiting",
            "Half messages that a transaction state table or database was not told of yet",
            waiting,
        )

    def find_topic(self, name: str) -> int | None:
        """Return the number of a real topic; None if the topic had no half message yet."""
        return self._topic_numbers.get(name)

    def totals(self) -> dict[str, int]:
        """Return every counter without its labels, under the name of what it counts."""
        return {
            "committed": int(self.commits.value),
            "rolled_back": int(self.rollbacks.value),
            "given_up": int(self.discards.value),
            "repeated": int(self.repeats.value),
            "conflicts": int(self.conflicts.value),
            "manual": int(self.manual.value),
            "checks_sent": int(self.checks_sent.value),
            "checks_unknown": int(self.checks_unknown.value),
            "checks_unanswered": int(self.checks_lost.value),
        }

    def topic(self, name: str) -> int:
        """Return the number of a real topic. The number never changes while the process lives."""
        number = self._topic_numbers.get(name)
        if number is None:
            number = self._topic_numbers[name] = len(self.by_topic)
            self.by_topic.append(
                TopicNumbers(
                    name,
                    self.half_messages.at(topic=name),
                    self.commits.at(topic=name),
                    self.rollbacks.at(topic=name),
                    self.latency_s.of(topic=name),
                )
            )
        return number


FILE_NAME = "transactionMetrics"
"""The name of Apache RocketMQ's file. Never change the name."""


class MetricsFile:
    """The file ``config/transactionMetrics``, from which an Apache RocketMQ broker goes on with correct counts.

    The gateway itself never reads the file, because each start counts what is pending.

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
