"""Spark's calls of a streaming query, over a cluster in memory."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from gateway.client.errors import ConnectError
from gateway.spark.errors import CheckpointRefused
from gateway.spark.reading import stream_reader
from gateway.spark.reading.stream_reader import StreamReader
from gateway.spark.table.schema import wanted_columns
from gateway.tests.spark.pretend_cluster import PretendCluster, queue
from gateway.tests.spark.reading.test_planning import stream_options

WANTED = wanted_columns([("queueOffset", "bigint")], json_properties=False)


class Watched(PretendCluster):
    """A cluster that is told of progress and closed."""

    closed = 0

    def commit(self, group: str, offsets: dict[Any, int]) -> None:
        if self.down is not None:
            raise self.down
        self.committed.update(offsets)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Ten messages in queue 0."""
    found = Watched({queue(0): []})
    found.fill(queue(0), 10)
    monkeypatch.setattr(stream_reader, "cluster_for", lambda access: found)
    return found


def reader(**given: str) -> StreamReader:
    return StreamReader(stream_options(startingOffsets="earliest", **given), WANTED)


def through_json(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def test_a_batch_is_planned_in_one_process_and_read_in_another(cluster: Watched) -> None:
    driver = reader(maxOffsetsPerTrigger="4")
    start = through_json(driver.initialOffset())
    limit = driver.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)
    end = through_json(driver.latestOffset(start, limit))
    worker = pickle.loads(pickle.dumps(driver))
    found = [
        offset
        for partition in driver.partitions(start, end)
        for batch in worker.read(pickle.loads(pickle.dumps(partition)))
        for offset in batch.column(0).to_pylist()
    ]
    assert found == [0, 1, 2, 3]
    assert list(worker.read(InputPartition(None))) == []


def test_without_a_limit_all_there_is_is_read(cluster: Watched) -> None:
    driver = reader()
    assert driver.getDefaultReadLimit() == ReadAllAvailable()
    end = driver.latestOffset(driver.initialOffset(), ReadAllAvailable())
    assert end["q"] == {"orders": {"broker-a": {"0": 10}}}
    assert (driver.reportLatestOffset() or {})["q"] == end["q"]


def test_nothing_new_is_the_very_offset_that_was_given(cluster: Watched) -> None:
    driver = reader()
    end = through_json(driver.latestOffset(driver.initialOffset(), ReadAllAvailable()))
    assert driver.latestOffset(end, ReadAllAvailable()) is end


def test_what_there_is_now_is_the_end_of_available_now(cluster: Watched) -> None:
    driver = reader()
    start = driver.initialOffset()
    driver.prepareForTriggerAvailableNow()
    cluster.fill(queue(0), 5)
    assert driver.latestOffset(start, ReadAllAvailable())["q"]["orders"]["broker-a"]["0"] == 10


def test_a_checkpoint_of_another_source_is_refused(cluster: Watched) -> None:
    with pytest.raises(CheckpointRefused):
        reader().latestOffset({"orders": {"0": 5}}, ReadAllAvailable())


def test_progress_is_shown_only_when_it_is_wanted(cluster: Watched, caplog: pytest.LogCaptureFixture) -> None:
    end = reader().latestOffset(reader().initialOffset(), ReadAllAvailable())
    reader().commit(end)
    assert cluster.committed == {}
    shown = reader(consumerGroup="g", commitOffsetsToBroker="true")
    shown.commit(end)
    assert cluster.committed == {queue(0): 10}
    cluster.down = ConnectError("10.0.0.7:10911", "refused")
    with caplog.at_level(logging.WARNING):
        shown.commit(end)
    assert "the progress of group g is not shown" in caplog.text


def test_a_stream_goes_on_without_a_last_commit_or_a_stop(cluster: Watched) -> None:
    """Spark gives neither: a batch is committed when the next one begins, and a query that ends is let go of."""
    found: list[int] = []
    end = None
    for _ in range(3):
        driver = reader(maxOffsetsPerTrigger="4", consumerGroup="g", commitOffsetsToBroker="true")
        start = through_json(end or driver.initialOffset())
        end = through_json(driver.latestOffset(start, ReadMaxRows(4)))
        for partition in driver.partitions(start, end):
            found += [offset for batch in driver.read(partition) for offset in batch.column(0).to_pylist()]
    assert found == list(range(10))
    assert (cluster.committed, cluster.closed) == ({}, 0)


def test_a_stop_closes_what_was_opened(cluster: Watched) -> None:
    driver = reader()
    driver.stop()
    assert cluster.closed == 0
    driver.initialOffset()
    driver.stop()
    assert cluster.closed == 1
