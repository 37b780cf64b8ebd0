"""Reading a range of a queue: pulls until the last offset is there, whatever happens to connections and brokers.

A range ends when its last offset has been answered for, never because an answer was empty. Offsets of a queue have no
gaps, so unless the broker filters, one that is missing is a loss. While one chunk of pulls is decoded the next pull is
on its way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Final

import numpy as np
import pyarrow as pa

from gateway.client.errors import BrokerError, BrokerNotFound, ConnectError, RequestTimeout, RocketMQError, broker_error
from gateway.spark.cluster import Cluster
from gateway.spark.columns import ColumnReader
from gateway.spark.connection import BlockingConnection
from gateway.spark.errors import DataLoss, SparkSourceError
from gateway.spark.options import ReadOptions
from gateway.spark.planning import QueueRange, lost, queue_text
from gateway.spark.pull_request import pull_request
from gateway.spark.records import Integers, queue_offsets, record_starts
from gateway.spark.schema import WantedColumn
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.errors import RecordError
from wire.headers.declare import parse_header
from wire.headers.pull import PullMessageResponse

log = logging.getLogger(__name__)

CHUNK_RECORDS: Final = 16_384
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""A batch is made of at least so many records or bytes: small ones cost Spark more than their rows."""
PULL_COUNT: Final = 1024
"""Messages asked for at once; brokers give what they are set to, mostly 32."""
_PAUSE_S: Final = 0.1
_NOT_THERE_TRIES: Final = 5
"""So often a broker may say that there is nothing at an offset it had counted, before that is believed."""
_RETRIABLE: Final = (
    ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY, ResponseCode.SYSTEM_ERROR,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pulled:
    """One answer: records as bytes, and the offset after what it answers for."""

    body: bytes
    next_offset: int
    is_loss: bool = False
    """Whether it stands for offsets that are not there any more, which was told of already."""


class RangeReader:
    """Reads one range.

    :param wait: sleeps so many seconds; ``now`` a clock that does not go back.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ReadOptions,
        wanted: tuple[WantedColumn, ...],
        work: QueueRange,
        *,
        wait: Callable[[float], object] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._work = work
        self._queue = queue_text(work.queue)
        self._columns = ColumnReader(
            wanted,
            topic=work.queue.topic,
            broker_name=work.queue.broker_name,
            queue_id=work.queue.queue_id,
            fails=options.fails_on_bad_bodies,
            check_bodies=options.check_bodies,
        )
        self._tags = options.tag_expression.tags if options.expression_type == "TAG" else frozenset()
        self._pulls = Pulls(cluster, options, work, wait=wait or Event().wait, now=now)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the range, in the order of their offsets.

        :raises DataLoss: some are not there any more; ``RocketMQError``: the broker cannot be reached or refuses.
        """
        expected = self._work.start
        for chunk in self._chunks():
            next_offset = chunk[-1].next_offset
            if not chunk[0].is_loss:
                batch = self._batch(b"".join([pulled.body for pulled in chunk]), expected, next_offset)
                if batch is not None:
                    yield batch
            expected = next_offset

    def _batch(self, buffer: bytes, begin: int, next_offset: int) -> pa.RecordBatch | None:
        """The rows of a chunk that answers for the offsets from ``begin`` to before ``next_offset``."""
        try:
            starts = record_starts(buffer)
            offsets = queue_offsets(buffer, starts)
            within = (offsets >= begin) & (offsets < self._work.end)
            if not within.all():
                starts, offsets = starts[within], offsets[within]
            if not self._options.is_filtered:
                self._check_dense(offsets, begin, min(next_offset, self._work.end))
            batch = self._columns.read(buffer, starts, self._tags) if len(starts) else None
        except RecordError as error:
            raise SparkSourceError(
                f"queue {self._queue}, offsets {begin} to {next_offset - 1}: what the broker sent is damaged: {error}"
            ) from error
        return batch if batch is not None and batch.num_rows else None

    def _chunks(self) -> Iterator[list[Pulled]]:
        """Answers gathered until they are worth a batch."""
        chunk: list[Pulled] = []
        size = 0
        begin = self._work.start
        for pulled in self._pulls.answers():
            if pulled.is_loss and chunk:
                yield chunk
                chunk = []
            chunk.append(pulled)
            size += len(pulled.body)
            if pulled.is_loss or size >= CHUNK_BYTES or pulled.next_offset - begin >= CHUNK_RECORDS:
                yield chunk
                begin, chunk, size = pulled.next_offset, [], 0
        if chunk:
            yield chunk

    def _check_dense(self, offsets: Integers, begin: int, end: int) -> None:
        """Refuse gaps.

        :raises DataLoss: an offset between ``begin`` and ``end`` has no record.
        """
        if len(offsets) == end - begin and (offsets == np.arange(begin, end)).all():
            return
        there = np.zeros(max(end - begin, 0), np.bool_)
        there[offsets[(offsets >= begin) & (offsets < end)] - begin] = True
        for first, last in _runs(np.flatnonzero(~there) + begin):
            reason = "the broker passed over them (removed by retention, by compaction, or damaged)"
            lost(DataLoss(self._queue, first, last + 1, reason), fails=self._options.fail_on_data_loss)


def _runs(offsets: Integers) -> Iterator[tuple[int, int]]:
    """First and last of each row of neighbours."""
    if len(offsets):
        ends = np.flatnonzero(np.diff(offsets) > 1)
        firsts = np.concatenate(([0], ends + 1))
        lasts = np.concatenate((ends, [len(offsets) - 1]))
        yield from zip(offsets[firsts].tolist(), offsets[lasts].tolist(), strict=True)


class Pulls:
    """The answers of a broker to pulls of a range, in order, each asked for again until it is there."""

    def __init__(
        self,
        cluster: Cluster,
        options: ReadOptions,
        work: QueueRange,
        *,
        wait: Callable[[float], object],
        now: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._work = work
        self._queue = queue_text(work.queue)
        self._wait = wait
        self._now = now
        self._failing_since: float | None = None
        self._nothing_there = 0
        self._sent: tuple[BlockingConnection, int, int] | None = None

    def answers(self) -> Iterator[Pulled]:
        """Every answer with records or, when the broker filters, without; until the end of the range."""
        offset = self._work.start
        try:
            while offset < self._work.end:
                pulled = self._next(offset)
                if pulled is None:
                    continue
                if pulled.next_offset <= offset:
                    raise DataLoss(self._queue, offset, self._work.end, "the broker answers for no further offset")
                offset = pulled.next_offset
                if offset < self._work.end and not pulled.is_loss:
                    self._send_ahead(offset)
                yield pulled
        finally:  # a query that has enough rows lets go of us here
            if self._sent is not None:
                connection, opaque, _ = self._sent
                connection.abandon(opaque)

    def _next(self, offset: int) -> Pulled | None:
        """The answer at an offset, None when it is to be asked again."""
        try:
            connection, answer = self._ask(offset)
            pulled = self._read(answer, connection.address, offset)
        except (ConnectError, RequestTimeout, BrokerNotFound, BrokerError) as error:
            return self._failed(error, offset)
        if pulled is not None:
            self._failing_since = None
            self._nothing_there = 0
        return pulled

    def _ask(self, offset: int) -> tuple[BlockingConnection, RemotingCommand]:
        timeout_s = self._options.pull_timeout_s
        sent, self._sent = self._sent, None
        if sent is not None and sent[2] == offset:
            connection, opaque, _ = sent
            return connection, connection.finish(opaque, timeout_s)
        queue = self._work.queue
        connection = self._cluster.broker(queue.broker_name, queue.topic, fresh=self._failing_since is not None)
        return connection, connection.call(self._command(offset), timeout_s)

    def _send_ahead(self, offset: int) -> None:
        """Ask for what comes next, so that the broker works while this process does."""
        try:
            connection = self._cluster.broker(self._work.queue.broker_name, self._work.queue.topic)
            self._sent = connection, connection.start(self._command(offset), self._options.pull_timeout_s), offset
        except (ConnectError, RequestTimeout, BrokerNotFound):
            self._sent = None  # asked again, and then told of, when it is needed

    def _command(self, offset: int) -> RemotingCommand:
        options = self._options
        return pull_request(
            options.group,
            self._work.queue,
            offset,
            min(options.pull_count or PULL_COUNT, self._work.end - offset),
            expression=options.expression,
            expression_type=options.expression_type,
        )

    def _read(self, answer: RemotingCommand, address: str, offset: int) -> Pulled | None:
        """What an answer says.

        :raises BrokerError: a refusal; ``DataLoss``: the offsets are not there.
        """
        if answer.code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            raise broker_error(answer.code, answer.remark, address)
        header = parse_header(PullMessageResponse, answer.ext_fields)
        if answer.code == ResponseCode.SUCCESS:
            return Pulled(answer.body, header.next_begin_offset)
        if offset < header.min_offset:
            return self._skipped(offset, header.min_offset, f"the queue begins at {header.min_offset} now")
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and header.next_begin_offset > offset:
            return Pulled(b"", header.next_begin_offset)  # nothing in it matched the filter
        return self._not_there(offset, header)

    def _not_there(self, offset: int, header: PullMessageResponse) -> Pulled | None:
        """Nothing at an offset below the end: the store was cut off or replaced; or it is about to be ready."""
        self._nothing_there += 1
        if self._nothing_there < _NOT_THERE_TRIES:
            self._wait(_PAUSE_S)
            return None
        reason = f"the queue ends at {header.max_offset}: the store was truncated or replaced"
        return self._skipped(offset, self._work.end, reason)

    def _skipped(self, first: int, end: int, reason: str) -> Pulled:
        end = min(end, self._work.end)
        lost(DataLoss(self._queue, first, end, reason), fails=self._options.fail_on_data_loss)
        return Pulled(b"", end, is_loss=True)

    def _failed(self, error: RocketMQError, offset: int) -> Pulled | None:
        """Wait before the next try, or give up.

        :raises RocketMQError: the broker refuses, or it has not been reached for too long.
        """
        if isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST:
            return self._skipped(offset, self._work.end, f"the topic is gone ({error})")
        if isinstance(error, BrokerError) and error.code not in _RETRIABLE:
            raise error
        now = self._now()
        if self._failing_since is None:
            self._failing_since = now
            log.warning("reading %s failed and is tried again: %s", self._work, error)
        if now - self._failing_since >= self._options.reconnect_s:
            raise error
        self._cluster.forget(self._work.queue.broker_name)
        self._wait(_PAUSE_S)
        return None
