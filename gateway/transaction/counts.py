"""The numbers of transactions, by name; the first four are those that Apache RocketMQ 5.x exports."""

from __future__ import annotations

from gateway.telemetry.metrics import Registry


class TransactionCounts:
    """Declared once in a registry; written as ``counts.commits.value += 1``."""

    __slots__ = (
        "checks_lost",
        "checks_sent",
        "checks_unknown",
        "commits",
        "conflicts",
        "discards",
        "half_messages",
        "repeats",
        "rollbacks",
    )

    def __init__(self, registry: Registry) -> None:
        self.half_messages = registry.gauge("rocketmq_half_messages", "Half messages without an outcome")
        self.commits = registry.counter("rocketmq_commit_messages_total", "Half messages committed")
        self.rollbacks = registry.counter("rocketmq_rollback_messages_total", "Half messages rolled back")
        self.discards = registry.counter(
            "rocketmq_gateway_discarded_messages_total", "Half messages given up without an outcome"
        )
        self.repeats = registry.counter(
            "rocketmq_gateway_repeated_outcomes_total", "Outcomes that were already applied"
        )
        self.conflicts = registry.counter(
            "rocketmq_gateway_refused_outcomes_total", "Outcomes that contradict the first one"
        )
        self.checks_sent = registry.counter(
            "rocketmq_gateway_checks_sent_total", "Checks handed to a producer's connection"
        )
        self.checks_unknown = registry.counter(
            "rocketmq_gateway_checks_unknown_total", "Checks answered without an outcome"
        )
        self.checks_lost = registry.counter(
            "rocketmq_gateway_checks_unanswered_total", "Checks that were not answered in time"
        )
