"""Reads messages through a consume queue: which records, as few reads of the log as possible, where to go on.

Statuses and next offsets follow upstream's ``DefaultMessageStore.getMessage``. Any thread may read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from gateway.store.commit_log import CommitLog
from gateway.store.consume_queue import ConsumeQueue
from gateway.store.get_result import GetResult, GetStatus
from wire.disk.consume_queue import UNIT

LEAST_EXAMINED = 800
"""Units one read looks at when a filter may pass over many (upstream: 16 000 bytes of 20)."""

AcceptsCode = Callable[[int], bool]
AcceptsRecord = Callable[[memoryview], bool]


class QueueReader:
    """Reads from any queue of one log."""

    __slots__ = ("_log",)

    def __init__(self, log: CommitLog) -> None:
        self._log = log

    def read(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_count: int,
        max_bytes: int,
        accepts: AcceptsCode | None = None,
        accepts_record: AcceptsRecord | None = None,
    ) -> GetResult:
        """Up to ``max_count`` records and ``max_bytes`` bytes from ``offset`` on, but at least one record.

        :param accepts: looks at a tags code; None takes all.
        :param accepts_record: looks at a whole record; None takes all.
        """
        outside = _outside(queue, offset)
        if outside is not None:
            return outside
        assert queue is not None, "a missing queue is outside"
        filtered = accepts is not None or accepts_record is not None
        max_count = max(max_count, 1)
        units = queue.read_units(offset, max(LEAST_EXAMINED, max_count) if filtered else max_count)
        if not units:
            return _nothing(queue, GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset))
        while True:
            log_min = self._log.min_offset
            chosen = _Choice(max_count, max_bytes, log_min, self._log.files.file_size)
            if accepts_record is None:
                chosen.take(units, accepts)
                parts = self._parts(chosen.ranges)
            else:
                parts = self._filtered(chosen, units, accepts, accepts_record)
            if parts is not None or self._log.min_offset == log_min:
                break
            # Retention was quicker: choose again, or messages that still exist would be passed over with the others.
        next_offset = offset + chosen.examined
        if parts is None or (chosen.count == 0 and chosen.gone):
            return _nothing(queue, GetStatus.MESSAGE_WAS_REMOVING, next_offset)
        if chosen.count == 0:
            return _nothing(queue, GetStatus.NO_MATCHED_MESSAGE, next_offset)
        return GetResult(
            GetStatus.FOUND,
            next_offset,
            queue.min_offset,
            queue.max_offset,
            chosen.count,
            chosen.total_bytes,
            parts,
        )

    def _parts(self, ranges: list[tuple[int, int]]) -> list[bytes] | None:
        """The bytes of ranges of the log; None when retention took one away meanwhile."""
        parts = []
        for start, end in ranges:
            file = self._log.files.find(start)
            data = b"" if file is None else file.read(start - file.start_offset, end - start)
            if len(data) != end - start:
                return None
            parts.append(data)
        return parts

    def _filtered(
        self, chosen: _Choice, units: bytes, accepts: AcceptsCode | None, accepts_record: AcceptsRecord
    ) -> list[bytes]:
        """Record by record: each is read to be looked at."""
        parts: list[bytes] = []
        for position, size, code in UNIT.iter_unpack(units):
            if chosen.is_full(size):
                break
            chosen.examined += 1
            if chosen.is_gone(position, size):
                chosen.gone = True
                continue
            if accepts is not None and not accepts(code):
                continue
            record = self._log.record_at(position, size)
            if record is None:
                chosen.gone = True
            elif accepts_record(memoryview(record)):
                parts.append(record)
                chosen.count += 1
                chosen.total_bytes += size
        return parts

    def stored_at_ms(self, queue: ConsumeQueue, offset: int) -> int:
        """When a queue's message was stored; −1 when there is none."""
        unit = queue.unit(offset)
        return -1 if unit is None else self._log.stored_at_ms(unit[0])

    def offset_at_time(self, queue: ConsumeQueue, timestamp_ms: int, *, upper: bool) -> int:
        """The first offset stored at a time or later, the end when none; with ``upper`` the last one stored at
        it or earlier, 0 when none. Store times of a queue never fall, so halving finds it.
        """
        offsets = range(queue.min_offset, queue.max_offset)

        def stored(offset: int) -> int:
            return self.stored_at_ms(queue, offset)

        if not upper:
            return queue.min_offset + bisect_left(offsets, timestamp_ms, key=stored)
        found = bisect_right(offsets, timestamp_ms, key=stored)
        return queue.min_offset + found - 1 if found else 0


class _Choice:
    """The records one read returns, as ranges of the log. A plain class: filled in a loop."""

    __slots__ = (
        "_largest",
        "_log_min",
        "_max_bytes",
        "_max_count",
        "count",
        "examined",
        "gone",
        "ranges",
        "total_bytes",
    )

    def __init__(self, max_count: int, max_bytes: int, log_min: int, largest: int) -> None:
        self._largest = largest
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._log_min = log_min
        self.count = 0
        self.total_bytes = 0
        self.examined = 0
        self.gone = False
        self.ranges: list[tuple[int, int]] = []

    def is_full(self, size: int) -> bool:
        """Whether a record of this size does not go in any more; the first one always does."""
        return self.count >= self._max_count or (self.count > 0 and self.total_bytes + size > self._max_bytes)

    def is_gone(self, position: int, size: int) -> bool:
        """Whether a unit leads to no record: deleted, a filler, or a size that no record has."""
        return position < self._log_min or not 0 < size <= self._largest

    def take(self, units: bytes, accepts: AcceptsCode | None) -> None:
        """Choose from units; neighbours in the log become one range."""
        count = total = examined = 0
        max_count, max_bytes, log_min, largest = self._max_count, self._max_bytes, self._log_min, self._largest
        ranges: list[tuple[int, int]] = []
        start = end = -1
        for position, size, code in UNIT.iter_unpack(units):
            if count >= max_count or (count and size <= largest and total + size > max_bytes):
                break
            examined += 1
            if position < log_min or not 0 < size <= largest:  # is_gone, without a call for each message
                self.gone = True
                continue
            if accepts is not None and not accepts(code):
                continue
            count += 1
            total += size
            if position == end:
                end += size
            else:
                if end >= 0:
                    ranges.append((start, end))
                start, end = position, position + size
        if end >= 0:
            ranges.append((start, end))
        self.count, self.total_bytes, self.examined, self.ranges = count, total, examined, ranges


def _outside(queue: ConsumeQueue | None, offset: int) -> GetResult | None:
    """The answer for an offset that no message of the queue has; None when one has it."""
    if queue is None:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    end = queue.max_offset
    if queue.min_offset <= offset < end:
        return None
    if end == 0:
        return _nothing(queue, GetStatus.NO_MESSAGE_IN_QUEUE, 0)
    if offset < queue.min_offset:
        return _nothing(queue, GetStatus.OFFSET_TOO_SMALL, queue.min_offset)
    if offset == end:
        return _nothing(queue, GetStatus.OFFSET_OVERFLOW_ONE, offset)
    return _nothing(queue, GetStatus.OFFSET_OVERFLOW_BADLY, end)


def _nothing(queue: ConsumeQueue, status: GetStatus, next_offset: int) -> GetResult:
    return GetResult(status, next_offset, queue.min_offset, queue.max_offset)
