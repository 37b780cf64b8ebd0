"""A batch query: a range of every queue, fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from gateway.spark.asking.cluster import cluster_for
from gateway.spark.options import ReadOptions
from gateway.spark.reading.narrowing import Narrowing, narrowing
from gateway.spark.reading.planning import batch_ranges, split
from gateway.spark.reading.range_reader import RangeReader
from gateway.spark.table.schema import WantedColumn


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in the workers. It travels between them, so it opens nothing before it is asked."""

    def __init__(self, options: ReadOptions, wanted: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._wanted = wanted
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        """One or more for each queue that has something to read."""
        options = self._options
        cluster = cluster_for(options.access)
        ranges = self._narrowing.ranges(cluster, batch_ranges(cluster, options))
        return [
            InputPartition(piece)
            for piece in split(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a range; of None, which Spark makes up when there is nothing to read, none."""
        if partition is None or partition.value is None:
            return iter(())
        return RangeReader(cluster_for(self._options.access), self._options, self._wanted, partition.value).batches()


class NarrowedReader(BatchReader):
    """For ``pushFilters=true``. A class of its own: Spark fails queries over a reader that could take conditions while
    ``spark.sql.python.filterPushdown.enabled`` is false, and that is its default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what the conditions say, and leave all of them for Spark to check."""
        self._narrowing = narrowing(filters)
        self._options = self._narrowing.options(self._options)
        return filters
