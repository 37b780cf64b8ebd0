"""The reader of a queue's range: pulls are gathered into chunks, and each chunk becomes one Arrow batch.

A range ends after an answer for its last offset, never because an answer was empty. The offsets of a queue have no
gaps. So a missing offset is a loss, unless the broker filters.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from gateway.client.blocking.waiting import pause
from gateway.client.errors import RocketMQError
from gateway.spark.asking.cluster import Cluster
from gateway.spark.errors import DataLoss, SparkSourceError
from gateway.spark.options import ReadOptions
from gateway.spark.reading.planning import QueueRange, lost, queue_text
from gateway.spark.reading.pulls import Pulled, Pulls
from gateway.spark.reading.sealed import SealedRange
from gateway.spark.table.columns import ColumnReader
from gateway.spark.table.records import Integers, Whole, queue_offsets, record_starts
from gateway.spark.table.schema import WantedColumn
from gateway.spark.worker_heap import keep_what_is_loaded
from wire.errors import RecordError

log = logging.getLogger(__name__)

CHUNK_RECORDS: Final = 16_384
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""A batch has at least ``CHUNK_RECORDS`` records or ``CHUNK_BYTES`` bytes; the last one may be smaller.

Small batches cost Spark more than their rows do.
"""


class RangeReader:
    """The reader of one range.

    :param wait: sleeps for a number of seconds.
    :param now: a clock that does not go back, seconds.
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
        self._wanted = wanted
        self._tags = options.tag_expression.tags if options.expression_type == "TAG" else frozenset()
        self._wait = wait or pause
        self._now = now
        self._room = bytearray()
        self._pulls = Pulls(cluster, options, work, wait=self._wait, now=now)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range, in the order of their offsets.

        :raises DataLoss: some offsets no longer exist.
        :raises RocketMQError: the broker cannot be reached, or refuses.
        """
        expected = self._work.start
        store = self._options.store_path(self._work.queue.broker_name)
        if store is not None:
            for batch, next_offset in self._from_files(store):
                expected = next_offset
                if batch.num_rows:
                    yield batch
        if expected < self._work.end:
            yield from self._from_broker(expected)
        keep_what_is_loaded()

    def _columns(self, *, check_bodies: bool) -> ColumnReader:
        queue = self._work.queue
        return ColumnReader(
            self._wanted,
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            fails=self._options.fails_on_bad_bodies,
            check_bodies=check_bodies,
        )

    @cached_property
    def _broker_columns(self) -> ColumnReader:
        """The column reader for records from the broker.

        The option ``checkBodies`` says whether bodies are compared with their checksums. Without the option, bodies are
        not compared if a gateway sent them, because a gateway has compared them already; Apache RocketMQ has not.
        Without the option, bodies are also compared if damaged bodies become null.
        """
        options, queue = self._options, self._work.queue
        check_bodies = options.check_bodies
        if check_bodies is None:
            try:
                check_bodies = not options.fails_on_bad_bodies or not self._cluster.store_ids(
                    (queue.broker_name,), queue.topic
                )
            except RocketMQError:
                check_bodies = True
        return self._columns(check_bodies=check_bodies)

    def _from_files(self, store: str) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield batches of rows from closed files, each with the offset after its last row; the broker has the rest.

        :raises SparkSourceError: the files cannot be reached, or are not those of the broker.
        """
        columns = self._columns(check_bodies=self._options.check_bodies is not False)
        try:
            sealed = SealedRange(store, self._work)
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            first = sealed.first_record()
            if first is None or not self._is_the_brokers(first):
                return
            for span in sealed.spans():
                yield columns.read_groups(span.groups, self._tags), span.next_offset
        except RocketMQError:  # among them are errors of the system, too
            raise
        except FileNotFoundError as error:  # retention took one
            log.warning("%s: the broker is asked for the rest, since a file is not there: %s", self._work, error)
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            sealed.close()

    def _unreadable(self, error: OSError) -> SparkSourceError:
        return SparkSourceError(
            f"queue {self._queue}: the files of storePath cannot be read on {socket.gethostname()}: {error}. Every "
            f"worker must reach them; without storePath the broker is asked"
        )

    def _is_the_brokers(self, record: bytes) -> bool:
        """Return whether the broker has the same record at the start of the range; False if it has none.

        :raises SparkSourceError: the broker has another record there.
        """
        queue, start = self._work.queue, self._work.start
        everything = replace(self._options, expression="*", expression_type="TAG")
        first = replace(self._work, end=start + 1)
        pulls = Pulls(self._cluster, everything, first, wait=self._wait, now=self._now)
        pulled = next(pulls.answers())
        if pulled.is_loss:
            return False  # and is told of again when the broker is asked for all of it
        if pulled.body[: len(record)] == record:
            return True
        raise SparkSourceError(
            f"queue {self._queue}: offset {self._work.start} is another record in the files of storePath than at "
            f"broker {queue.broker_name}: that is the store of another broker, or an old copy"
        )

    def _from_broker(self, expected: int) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks(expected):
            next_offset = chunk[-1].next_offset
            if not chunk[0].is_loss:
                batch = self._batch(self._joined(chunk), expected, next_offset)
                if batch is not None:
                    yield batch
            expected = next_offset

    def _joined(self, chunk: list[Pulled]) -> Whole:
        """Return the bodies joined in a buffer that the next chunk reuses: a batch copies what it needs."""
        if len(chunk) == 1:
            return chunk[0].body
        size = sum(len(pulled.body) for pulled in chunk)
        if size > len(self._room):
            self._room = bytearray(size)
        at = 0
        for pulled in chunk:
            self._room[at : at + len(pulled.body)] = pulled.body
            at += len(pulled.body)
        return memoryview(self._room)[:size]

    def _batch(self, buffer: Whole, begin: int, next_offset: int) -> pa.RecordBatch | None:
        """Return the rows of a chunk for the offsets from ``begin`` to before ``next_offset``, None without rows."""
        try:
            starts = record_starts(buffer)
            offsets = queue_offsets(buffer, starts)
            within = (offsets >= begin) & (offsets < self._work.end)
            if not within.all():
                starts, offsets = starts[within], offsets[within]
            if not self._options.is_filtered:
                self._check_dense(offsets, begin, min(next_offset, self._work.end))
            batch = self._broker_columns.read(buffer, starts, self._tags) if len(starts) else None
        except RecordError as error:
            raise SparkSourceError(
                f"queue {self._queue}, offsets {begin} to {next_offset - 1}: what the broker sent is damaged: {error}"
            ) from error
        return batch if batch is not None and batch.num_rows else None

    def _chunks(self, begin: int) -> Iterator[list[Pulled]]:
        """Yield the answers from an offset on, gathered until there are enough for a batch."""
        chunk: list[Pulled] = []
        size = 0
        for pulled in self._pulls.answers(begin):
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
        """Refuse missing and repeated offsets.

        :raises DataLoss: an offset between ``begin`` and ``end`` has no record, and a loss is an error.
        :raises RecordError: the offsets do not rise.
        """
        if len(offsets) == end - begin and (offsets == np.arange(begin, end)).all():
            return
        if (np.diff(offsets) <= 0).any():
            raise RecordError("the offsets of its records do not rise")
        for first, last in _gaps(offsets[(offsets >= begin) & (offsets < end)], begin, end):
            reason = "the broker passed over them (removed by retention, by compaction, or damaged)"
            lost(DataLoss(self._queue, first, last + 1, reason), fails=self._options.fail_on_data_loss)


def _gaps(offsets: Integers, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each gap between ``begin`` and ``end`` in the rising ``offsets``."""
    bounds = np.concatenate(([begin - 1], offsets, [max(end, begin)]))
    for place in np.flatnonzero(np.diff(bounds) > 1).tolist():
        yield int(bounds[place]) + 1, int(bounds[place + 1]) - 1
