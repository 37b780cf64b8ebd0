"""A streaming query: Spark's calls are answered by ``micro_batches``."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from gateway.client.blocking.waiting import pause
from gateway.client.errors import RocketMQError
from gateway.spark.asking.cluster import cluster_for
from gateway.spark.offsets import Checkpoint
from gateway.spark.options import ReadOptions
from gateway.spark.reading.micro_batches import MicroBatches
from gateway.spark.reading.range_reader import RangeReader
from gateway.spark.table.schema import WantedColumn

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream: one on the driver plans, copies in the workers read."""

    def __init__(self, options: ReadOptions, wanted: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._wanted = wanted
        self._plan: MicroBatches | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the plan: a plan holds connections, and workers do not plan."""
        return {**self.__dict__, "_plan": None}

    def initialOffset(self) -> dict[str, Any]:
        """Return where the stream begins without a checkpoint."""
        return self._micro_batches.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return ``maxOffsetsPerTrigger``, or no limit without the option."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> Mapping[str, Any]:
        """Return the end of the next batch; ``start`` if there is nothing to do."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = Checkpoint.parse(start)
        end = self._micro_batches.latest(begin, most)
        return start if end is begin else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the queues, shown in progress reports as ``latestOffset``; None before the first look."""
        found = self._micro_batches.reported()
        return None if found is None else found.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the query read the messages of this moment, in as many batches as needed, and then end."""
        self._micro_batches.fix_target()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of a batch."""
        ranges = self._micro_batches.ranges(Checkpoint.parse(start), Checkpoint.parse(end))
        return [InputPartition(piece) for piece in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a range; called in the workers."""
        if partition.value is None:
            return iter(())
        return RangeReader(cluster_for(self._options.access), self._options, self._wanted, partition.value).batches()

    def commit(self, end: Mapping[str, Any]) -> None:
        """Show the progress to tools of the broker, if the options ask for it.

        No reading depends on the shown progress.
        """
        if not self._options.commit_to_broker:
            return
        try:
            cluster_for(self._options.access).commit(self._options.group, Checkpoint.parse(end).offsets)
        except RocketMQError as error:
            log.warning("the progress of group %s is not shown by the broker: %s", self._options.group, error)

    def stop(self) -> None:
        """Close the driver's connections. Spark does not promise to call this method."""
        if self._plan is not None:
            cluster_for(self._options.access).close()

    @property
    def _micro_batches(self) -> MicroBatches:
        if self._plan is None:
            self._plan = MicroBatches(cluster_for(self._options.access), self._options, time.monotonic, pause)
        return self._plan
