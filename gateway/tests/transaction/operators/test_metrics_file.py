"""The counts that are left for Apache RocketMQ."""

from __future__ import annotations

from pathlib import Path

from gateway.tests.transaction.world import COMMIT, World
from gateway.transaction.counts import MetricsFile
from wire.disk.config_json import TransactionMetricsFile


def written(world: World, directory: Path) -> dict[str, int]:
    MetricsFile(directory, world.transactions.counts, world.now_ms).persist_now()
    file = TransactionMetricsFile.parse((directory / "transactionMetrics").read_bytes())
    return {topic: count.count for topic, count in file.transaction_count.items()}


def test_it_says_how_many_are_pending_by_real_topic(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(3):
        world.send(f"k{number}")
    world.end(world.send("k3"), COMMIT)
    world.end(world.send("other", topic="payments"), COMMIT)
    assert written(world, tmp_path) == {"orders": 3}
    assert written(world.restart(), tmp_path) == {"orders": 3}


def test_a_broker_without_transactions_writes_none_but_corrects_what_is_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    MetricsFile(tmp_path, world.transactions.counts, world.now_ms).persist_now()
    assert not (tmp_path / "transactionMetrics").exists()
    (tmp_path / "transactionMetrics").write_text('{"transactionCount":{"old":{"count":7,"timeStamp":1}}}')
    assert written(world, tmp_path) == {}
