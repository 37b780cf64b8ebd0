"""The names under which transactions are counted."""

from __future__ import annotations

from gateway.telemetry.metrics import Registry
from gateway.transaction.counts import TransactionCounts


def test_apache_names_are_kept_where_there_are_any() -> None:
    registry = Registry()
    counts = TransactionCounts(registry)
    counts.commits.value += 1
    values = {sample.name: sample.value for sample in registry.samples()}
    assert values["rocketmq_commit_messages_total"] == 1
    assert values["rocketmq_half_messages"] == 0
    assert values["rocketmq_rollback_messages_total"] == 0
