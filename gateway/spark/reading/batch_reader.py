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
    """A reader that plans on the driver and reads in the workers.

    The reader travels between them, so it opens nothing before Spark calls it.
    """

    def __init__(self, options: ReadOptions, wanted: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._wanted = wanted
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        """Return one or more partitions for each queue that has something to read."""
        options = self._options
        cluster = cluster_for(options.access)
        ranges = self._narrowing.ranges(cluster, batch_ranges(cluster, options))
        return [
            InputPartition(piece)
            for piece in split(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of a range; no rows for None, which Spark makes up if there is nothing to read."""
        if partition is None or partition.value is None:
            return iter(())
        return RangeReader(cluster_for(self._options.access), self._options, self._wanted, partition.value).batches()


class NarrowedReader(BatchReader):
    """The reader for ``pushFilters=true``.

    A class of its own is needed, because Spark fails queries over a reader that could take conditions while
    ``spark.sql.python.filterPushdown.enabled`` is false, the default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the conditions to read less, and return all of them for Spark to check."""
        self._narrowing = narrowing(filters)
        self._options = self._narrowing.options(self._options)
        return filters
