"""The sources of a read's units and records: memory or the disk, or memory alone.

Both sources serve one algorithm (``queue_reader``).
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.log.commit_log import CommitLog
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.extended_units import AcceptsExtension, NotInMemory, with_codes
from gateway.store.reading.choice import Range, Span, cut, spans_of
from wire.disk.consume_queue import UNIT
from wire.message.record_fields import commit_log_offset_at
from wire.message.record_layout import MIN_RECORD_BYTES

FRESH_BYTES = 32 * 1024 * 1024
"""The last bytes of the log that are surely in memory, because they were written or walked by recovery just now.

For these bytes the system is not asked, because a question would double the cost of a small read.
"""
LEAST_EXAMINED = 800
"""The least number of units that a filtered read examines (upstream: 16 000 bytes, 20 for each unit)."""
LEAST_EXAMINED_NOW = 1600
"""The least number of units that a filtered read without waiting examines.

So many units take a millisecond at most, and halve the requests of a consumer that wants few messages. More units would
not help: a Java consumer stops for 50 ms if its messages span more than 2,000 offsets (``consumeConcurrentlyMaxSpan``).
"""


class Stored:
    """The source with everything that is stored. Every method may wait for the disk; any thread may call it."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log

    def least_examined(self) -> int:
        """Return how many units are examined at least if a filter may pass over many."""
        return LEAST_EXAMINED

    def units(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Return up to ``count`` units of a queue from ``offset`` on; b"" if there are none."""
        return queue.read_units(offset, count)

    def with_codes(self, queue: ConsumeQueue, units: bytes, accepts: AcceptsExtension | None) -> bytes:
        """Return units with tags codes in place of addresses in the queue's extension."""
        return with_codes(queue.extension, units, accepts)

    def read(self, file: MappedFile, position: int, count: int) -> bytes:
        """Return ``count`` bytes of a file of the log, or fewer at its end."""
        return file.read(position, count)

    def span(self, start: int, end: int) -> bytes | None:
        """Return the bytes between two offsets of one file of the log; None if retention deleted them."""
        file = self._log.files.find(start)
        data = b"" if file is None else file.read(start - file.start_offset, end - start)
        return data if len(data) == end - start else None

    def parts(self, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return the bytes of each range of the log; None if retention deleted one."""
        parts: list[bytes] = []
        for start, end, inside in spans_of(ranges, self._log.files.file_size):
            data = self.span(start, end)
            if data is None:
                return None
            cut(parts, start, data, inside)
        return parts

    def to_look_into(self, span: Span) -> Iterable[tuple[Span, bytes | None]]:
        """Return a span with its bytes, or its records one by one; a missing record has None for its bytes.

        A span is taken apart if it cannot be read as a whole, because some of its records may still exist.
        """
        data = self._whole(span)
        if data is not None:
            return ((span, data),)
        return ((each, self._log.record_at(each.start, each.end - each.start)) for each in span.apart())

    def _whole(self, span: Span) -> bytes | None:
        """Return the bytes of a span in which every record lies where its unit says; None if one does not."""
        if span.end > self._log.visible_end:
            return None
        data = self.span(span.start, span.end)
        if data is None:
            return None
        for position, size, _ in UNIT.iter_unpack(span.units):
            if size < MIN_RECORD_BYTES or commit_log_offset_at(data, position - span.start) != position:
                return None
        return data


class InMemory(Stored):
    """The source with what is in memory.

    Every method raises ``NotInMemory`` if the disk would have to be read, or if retention deleted the bytes.
    """

    def is_fresh(self, position: int) -> bool:
        """Return whether a place of the log was written so lately that it is in memory, whatever the system reports."""
        return position >= max(self._log.checked_from, self._log.visible_end - FRESH_BYTES)

    def least_examined(self) -> int:
        """Return how many units are examined at least if a filter may pass over many."""
        return LEAST_EXAMINED_NOW

    def units(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Return up to ``count`` units of a queue from ``offset`` on; b"" if there are none."""
        units = queue.read_units_now(offset, count)
        if units is None:
            raise NotInMemory
        return units

    def with_codes(self, queue: ConsumeQueue, units: bytes, accepts: AcceptsExtension | None) -> bytes:
        """Return units with tags codes in place of addresses in the queue's extension."""
        return with_codes(queue.extension, units, accepts, now=True)

    def read(self, file: MappedFile, position: int, count: int) -> bytes:
        """Return ``count`` bytes of a file of the log, or fewer at its end."""
        if self.is_fresh(file.start_offset + position):
            return file.read(position, count)
        data = file.read_now(position, count)
        if data is None:
            raise NotInMemory
        return data

    def span(self, start: int, end: int) -> bytes | None:
        """Return the bytes between two offsets of one file of the log; never None."""
        file = self._log.files.find(start)
        if file is None:
            raise NotInMemory
        data = self.read(file, start - file.start_offset, end - start)
        if len(data) != end - start:
            raise NotInMemory
        return data

    def to_look_into(self, span: Span) -> Iterable[tuple[Span, bytes | None]]:
        """Return a span with its bytes."""
        return ((span, self.span(span.start, span.end)),)
