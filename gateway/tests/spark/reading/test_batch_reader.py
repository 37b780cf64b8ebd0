"""A batch query over a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, InputPartition

from gateway.spark.reading import batch_reader
from gateway.spark.reading.batch_reader import BatchReader, NarrowedReader
from gateway.spark.table.schema import wanted_columns
from gateway.tests.spark.pretend_cluster import PretendCluster, queue
from gateway.tests.spark.reading.test_planning import options

WANTED = wanted_columns([("queueOffset", "bigint")], json_properties=False)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PretendCluster:
    """Fifty messages in queue 0, ten in queue 1."""
    found = PretendCluster({queue(0): [], queue(1): []})
    found.fill(queue(0), 50)
    found.fill(queue(1), 10)
    monkeypatch.setattr(batch_reader, "cluster_for", lambda access: found)
    return found


def rows(reader: BatchReader, partition: Any) -> list[int]:
    return [offset for batch in reader.read(partition) for offset in batch.column(0).to_pylist()]


def test_each_partition_is_a_range(cluster: PretendCluster) -> None:
    reader = BatchReader(options(maxRecordsPerPartition="30"), WANTED)
    partitions = reader.partitions()
    assert [str(partition.value).partition(" ")[2] for partition in partitions] == ["[0, 25)", "[25, 50)", "[0, 10)"]
    assert [rows(reader, partition) for partition in partitions] == [
        [*range(25)],
        [*range(25, 50)],
        [*range(10)],
    ]


def test_spark_makes_up_a_partition_when_there_is_none(cluster: PretendCluster) -> None:
    cluster.records = {queue(0): []}
    reader = BatchReader(options(), WANTED)
    assert reader.partitions() == []
    assert rows(reader, InputPartition(None)) == rows(reader, None) == []


def test_conditions_narrow_and_are_left_to_spark_as_well(cluster: PretendCluster) -> None:
    reader = NarrowedReader(options(), WANTED)
    conditions = [EqualTo(("queueId",), 1), EqualTo(("queueOffset",), 3)]
    assert reader.pushFilters(list(conditions)) == conditions
    [partition] = reader.partitions()
    assert rows(reader, partition) == [3]
