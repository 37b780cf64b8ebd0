"""The sink: tasks that send rows, for batch queries and for streams.

With at-least-once delivery, nothing remains to be done after all tasks. With ``deliveryMode=transactional``, the tasks
store half messages. After all tasks, the driver writes down which half messages count (``decisions``) and commits them.
If the driver dies after the decision, the repeated batch is committed again and not sent again.
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
"""Two of Spark's local properties of a task, ``_BATCH_ID`` and ``_QUERY_ID``; Spark does not pass them to ``write``."""


@dataclass
class Sent(WriterCommitMessage):
    """The result of a task.

    :param query: the query in the messages' stamps.
    :param batch: the batch in the messages' stamps.
    :param halves: the half messages that the task stored; None: the batch was decided before.
    """

    count: int
    query: str = ""
    batch: int = 0
    halves: Halves | None = None


class _TaskWriter:
    """The common part of both writers. Spark calls a stream's ``commit`` and ``abort`` with the batch's number, too.

    :param fields: names and types of the rows' columns in Spark's words.
    """

    def __init__(self, options: WriteOptions, fields: Sequence[tuple[str, str]]) -> None:
        RowReader(fields, options.topic)  # refuses a schema that cannot be written, before anything is started
        self._options = options
        self._fields = tuple(fields)
        self._write_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send every row, and return after all rows are stored.

        :raises RocketMQError: a row could not be stored; the task fails, and Spark repeats the task or the query fails.
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
        """Return the properties that name the query, batch and task of a message; a repeated task has the same ones."""
        query = context.getLocalProperty(_QUERY_ID) if context is not None else None
        batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
        return {
            "SPARK_QUERY": query or self._write_id,
            "SPARK_BATCH": batch or "0",
            "SPARK_PART": str(partition),
        }

    def commit(self, messages: list[WriterCommitMessage | None], *_batch: int) -> None:
        """Decide which half messages count, and commit them, if the delivery is transactional; all tasks are done.

        :raises RocketMQError: a broker could not be reached or refused; the batch is decided, and its repetition
            commits it.
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

    def abort(self, messages: list[WriterCommitMessage | None], *_batch: int) -> None:
        """Roll back the known half messages of a failed batch, unless it is decided; checks roll back the rest."""
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
    """The writer for ``df.write``. After a failed task, messages that were sent at least once stay."""


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """The writer for ``df.writeStream``. Spark repeats a failed batch; messages that were sent at least once stay."""
