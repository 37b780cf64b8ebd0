"""The sink: tasks that send rows, for batch queries and for streams. Nothing is left to do when all tasks are done."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gateway.spark.cluster import cluster_for
from gateway.spark.options import WriteOptions
from gateway.spark.rows import RowReader
from gateway.spark.sender import Sender

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
"""Spark's local properties of a task; ``write`` itself is not told them."""


@dataclass
class Sent(WriterCommitMessage):
    """How many messages a task sent."""

    count: int


class _TaskWriter:
    """What both writers do in a task.

    :param fields: names and types of the rows' columns in Spark's words.
    """

    def __init__(self, options: WriteOptions, fields: Sequence[tuple[str, str]]) -> None:
        RowReader(fields, options.topic)  # refuses a schema that cannot be written, before anything is started
        self._options = options
        self._fields = tuple(fields)
        self._write_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send every row; return when all of them are stored.

        :raises RocketMQError: one could not be; the task fails, and Spark repeats it or the query fails.
        """
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        stamp = self._stamp(context, partition)
        sender = Sender(cluster_for(self._options.access), self._options, stamp, turn=partition)
        rows = RowReader(self._fields, self._options.topic)
        try:
            for batch in iterator:
                for row in rows.rows(batch):
                    sender.send(row)
            return Sent(sender.finish())
        finally:
            sender.abandon()

    def _stamp(self, context: Any, partition: int) -> Mapping[str, str]:
        """What tells which query, batch and task a message comes from; the same when the task is repeated."""
        query = context.getLocalProperty(_QUERY_ID) if context is not None else None
        batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
        return {
            "SPARK_QUERY": query or self._write_id,
            "SPARK_BATCH": batch or "0",
            "SPARK_PART": str(partition),
        }


class BatchWriter(_TaskWriter, DataSourceArrowWriter):
    """For ``df.write``."""


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """For ``df.writeStream``."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All tasks are done, and so is the batch."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A task failed. What was sent is sent, and will be sent again: at least once."""
