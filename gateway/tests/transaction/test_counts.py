"""The names under which transactions are counted."""

from __future__ import annotations

from pathlib import Path

from gateway.telemetry.metrics import Registry
from gateway.tests.transaction.world import COMMIT, ROLLBACK, World
from gateway.transaction.counts import TransactionCounts


def test_apache_names_are_kept_where_there_are_any() -> None:
    registry = Registry()
    counts = TransactionCounts(registry)
    counts.commits.value += 1
    values = {sample.name: sample.value for sample in registry.samples()}
    assert values["rocketmq_commit_messages_total"] == 1
    assert values["rocketmq_half_messages"] == 0
    assert values["rocketmq_rollback_messages_total"] == 0


def test_a_topic_keeps_its_number_and_totals_are_of_all_topics() -> None:
    registry = Registry()
    counts = TransactionCounts(registry)
    assert [counts.topic(name) for name in ("a", "b", "a")] == [0, 1, 0]
    assert (counts.find_topic("b"), counts.find_topic("c")) == (1, None)
    counts.by_topic[1].half_messages.value += 2
    counts.conflicts.value += 3
    labelled = {sample.labels: sample.value for sample in counts.half_messages.samples()}
    assert labelled == {(("topic", "a"),): 0, (("topic", "b"),): 2}
    assert counts.totals()["conflicts"] == 3


def test_outcomes_are_counted_by_real_topic_with_the_age_at_the_commit(tmp_path: Path) -> None:
    world = World(tmp_path)
    paid, refused = world.send("k1"), world.send("k2", topic="payments")
    world.send("k3")
    world.wait(2)
    world.end(paid, COMMIT)
    world.end(refused, ROLLBACK)
    counts = world.transactions.counts
    numbers = {
        entry.name: (entry.half_messages.value, entry.commits.value, entry.rollbacks.value) for entry in counts.by_topic
    }
    assert numbers == {"orders": (1, 1, 0), "payments": (0, 0, 1)}
    assert counts.by_topic[0].latency_s.total == 2
    assert counts.by_topic[0].latency_s.counts[0] == 1
    assert world.tables.oldest_age_ms(world.now_ms()) == 2_000


def test_what_waits_for_a_lost_state_store_is_a_metric() -> None:
    registry = Registry()
    TransactionCounts(registry).watch(lambda: 1.5, lambda: 2, lambda: 3)
    values = {sample.name: sample.value for sample in registry.samples()}
    assert values["rocketmq_gateway_transaction_changes_waiting"] == 3
    assert values["rocketmq_gateway_transaction_checks_in_flight"] == 2
