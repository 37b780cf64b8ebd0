"""The sink: tasks that send rows, for batch queries and for streams.

At least once, nothing is left to do when all tasks are done. With ``deliveryMode=transactional`` the tasks store half
messages; when all are done the driver writes down which of them count (``decisions``) and commits these. A batch that
was decided and is repeated, since the driver died after it, is committed again and not sent again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gateway.client.errors import RocketMQError
from gateway.spark.asking.cluster import cluster_for
from gateway.spark.options import WriteOptions
from gateway.spark.worker_heap import keep_what_is_loaded
from gateway.spark.writing.decisions import Decisions, Halves
from gateway.spark.writing.outcomes import tell_outcomes
from gateway.spark.writing.rows import RowReader
from gateway.spark.writing.sender import TaskSender

log = logging.getLogger(__name__)

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
"""Spark's local properties of a task; ``write`` itself is not told them."""


@dataclass
class Sent(WriterCommitMessage):
    """What a task sent.

    :param query: of the messages' stamps; ``batch`` likewise.
    :param halves: which half messages it stored; None: its batch was decided before.
    """

    count: int
    query: str = ""
    batch: int = 0
    halves: Halves | None = None


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
        query, batch_id = stamp["SPARK_QUERY"], int(stamp["SPARK_BATCH"])
        if self._decided(query, batch_id) is not None:
            return Sent(0, query, batch_id)
        sender = TaskSender(cluster_for(self._options.access), self._options, stamp, turn=partition)
        rows = RowReader(self._fields, self._options.topic)
        try:
            for batch in iterator:
                plain = None if self._options.is_transactional else rows.plain(batch)
                if plain is not None:
                    sender.send_plain(plain)
                    continue
                for row in rows.rows(batch):
                    sender.send(row)
            sent = Sent(sender.finish(), query, batch_id, sender.halves)
        finally:
            sender.abandon()
        keep_what_is_loaded()
        return sent

    def _decided(self, query: str, batch: int) -> Halves | None:
        checkpoint = self._options.checkpoint
        return None if checkpoint is None else Decisions(checkpoint).find(query, batch)

    def _stamp(self, context: Any, partition: int) -> Mapping[str, str]:
        """What tells which query, batch and task a message comes from; the same when the task is repeated."""
        query = context.getLocalProperty(_QUERY_ID) if context is not None else None
        batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
        return {
            "SPARK_QUERY": query or self._write_id,
            "SPARK_BATCH": batch or "0",
            "SPARK_PART": str(partition),
        }

    def _commit_all(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decide which half messages count, and commit them.

        :raises RocketMQError: a broker could not be told; the batch is decided and is committed when it is repeated.
        """
        sent = [message for message in messages if isinstance(message, Sent)]
        if self._options.checkpoint is None or not sent:
            return
        decisions = Decisions(self._options.checkpoint)
        query, batch = sent[0].query, sent[0].batch
        halves = decisions.find(query, batch)
        if halves is None:
            halves = Halves()
            for message in sent:
                halves.extend(message.halves or Halves())
            decisions.decide(query, batch, halves)
        tell_outcomes(cluster_for(self._options.access), self._options, halves, is_commit=True)

    def _abort_all(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Roll back what is known of a batch that failed, unless it is decided; the check does the rest."""
        if self._options.checkpoint is None:
            return
        decisions = Decisions(self._options.checkpoint)
        for message in messages:
            if isinstance(message, Sent) and message.halves and decisions.find(message.query, message.batch) is None:
                try:
                    tell_outcomes(cluster_for(self._options.access), self._options, message.halves, is_commit=False)
                except RocketMQError as error:
                    log.warning("%d half messages are left to the check: %s", len(message.halves), error)


class BatchWriter(_TaskWriter, DataSourceArrowWriter):
    """For ``df.write``."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self._commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed. What was sent at least once stays."""
        self._abort_all(messages)


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """For ``df.writeStream``."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """All tasks are done."""
        self._commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """A task failed, and the batch will be repeated. What was sent at least once stays."""
        self._abort_all(messages)
