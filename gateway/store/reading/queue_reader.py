"""Reads messages through a consume queue: which records, as few reads of the log as possible, where to go on.

Statuses and next offsets follow upstream's ``DefaultMessageStore.getMessage``. Any thread may read: one that must not
wait for the disk with ``read_now``, which knows what is in memory (upstream guesses by the distance from the log's
end), any other with ``read``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import add
from pathlib import Path

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from gateway.store.log.commit_log import HEAD_READ_BYTES, CommitLog
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.extended_units import (
    AcceptsCode,
    AcceptsExtension,
    NotInMemory,
    has_addresses,
    lenient,
    with_codes,
)
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.read_check import ReadCheck, units_before
from gateway.store.reading.wanted_codes import WantedCodes, have_sizes
from wire.disk.consume_queue import FILLER_SIZE, UNIT, UNIT_BYTES
from wire.errors import RecordError
from wire.message.flags import SysFlag
from wire.message.inner_batch import inner_offsets
from wire.message.record import StoredMessage, parse_record
from wire.message.record_fields import commit_log_offset_at
from wire.message.record_layout import FLAGS_AT, MIN_RECORD_BYTES

FRESH_BYTES = 32 * 1024 * 1024
"""What was written last, or walked through by recovery just now, is in memory: the system is not asked, which would
double the cost of a small read."""
SPAN_GAP_BYTES = 8192
"""Records this close to each other are read at once and cut apart: copying so much costs less than a system call."""
SPAN_BYTES = 1024 * 1024
"""Read at once at most, unless one range is larger."""
AHEAD_UNITS = 2048
"""Messages whose records ``read_ahead`` asks for at most."""
AHEAD_BYTES = 4 * 1024 * 1024
AHEAD_RANGES = 64
AHEAD_GAP_BYTES = 64 * 1024
"""Records this close to each other are asked for as one range."""
FILTERED_BYTES = 4 * 1024 * 1024
"""Records one read without waiting looks into at most: others have their turn, the consumer comes again at once."""
BLOCK_UNITS = 64
"""Units looked at together: where their records are neighbours, a bulk reader's thousands cost little."""
BLOCK_BYTES = BLOCK_UNITS * UNIT.size
LEAST_EXAMINED = 800
"""Units one read looks at when a filter may pass over many (upstream: 16 000 bytes of 20)."""
LEAST_EXAMINED_NOW = 1600
"""The same of a read that does not wait: a millisecond at most, and half as many requests of a consumer that wants few.
Not more: one of Java stops for 50 ms when what it holds spans over 2,000 offsets (``consumeConcurrentlyMaxSpan``)."""
LOOKS_FOR_TAGS = 10
"""Reads of so many units, one behind the other, before an answer says that no message was wanted."""

_BLOCK = UNIT.repeated(BLOCK_UNITS)
_FIELDS = len(UNIT.names)
_SIZE_AT = UNIT.offset("size")
_CODE_AT = UNIT.offset("tags_code")
_LOOKED = (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE)

Range = tuple[int, int]
"""Commit log offsets of a first byte and of the one after the last."""
ChooseRecords = Callable[[bytes, int, bytes, int], tuple[list[int], int]]
"""Which of the records that lie in a buffer are wanted, by their numbers, and how many were looked into: buffer, the
commit log offset of its first byte, the records' units, how many must be looked into whatever that costs."""


class QueueReader:
    """Reads from any queue of one log."""

    __slots__ = ("_check", "_log")

    def __init__(self, log: CommitLog, root: Path | None = None) -> None:
        self._log = log
        self._check = ReadCheck(log, log.files.directory.parent if root is None else root)

    def read(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_count: int,
        max_bytes: int,
        accepts: AcceptsCode | None = None,
        choose: ChooseRecords | None = None,
        accepts_extension: AcceptsExtension | None = None,
        *,
        examined: int | None = None,
    ) -> GetResult:
        """Up to ``max_count`` records and ``max_bytes`` bytes from ``offset`` on, but at least one record.

        :param accepts: looks at a tags code; None takes all.
        :param choose: looks at whole records; None takes all.
        :param accepts_extension: looks at what the queue's extension has of a message; None takes all.
        :param examined: look at so many messages at most.
        """
        outside = _outside(queue, offset)
        if outside is not None:
            return outside
        assert queue is not None, "a missing queue is outside"
        filtered = accepts is not None or choose is not None
        max_count = max(max_count, 1)
        units = queue.read_units(offset, examined or (max(LEAST_EXAMINED, max_count) if filtered else max_count))
        if not units:
            return _nothing(queue, GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset))
        by_code = accepts
        if filtered and has_addresses(units):
            units, by_code = with_codes(queue.extension, units, accepts_extension), lenient(accepts)
        while True:
            log_min = self._log.min_offset
            chosen = _Choice(max_count, max_bytes, log_min, self._log.files.file_size)
            if choose is None:
                chosen.take(units, by_code)
                parts = self._parts(chosen.ranges)
            else:
                parts = self._filtered(chosen, units, max_count, by_code, choose, wait=True)
            if parts is not None or self._log.min_offset == log_min:
                break
            # Retention was quicker: choose again, or messages that still exist would be passed over with the others.
        damage = self._damage(queue, offset, chosen, parts, units)
        if damage is None:
            return _found(queue, offset, chosen, parts)
        whole, position, reason = damage
        if not whole:
            remark = self._check.remark(queue.topic, queue.queue_id, offset, (position, reason))
            return _damaged(queue, offset, remark)
        # Those before it, if any is wanted; the next read begins with it.
        return self.read(queue, offset, whole, max_bytes, accepts, choose, accepts_extension, examined=whole)

    def _damage(
        self, queue: ConsumeQueue, offset: int, chosen: _Choice, parts: list[bytes] | None, units: bytes
    ) -> tuple[int, int, str] | None:
        """The first message that is not as it was stored: how many stand before it, its place, what is wrong."""
        if chosen.gone and (odd := chosen.odd_unit(units)) is not None:
            return odd
        found = None if parts is None else self._check.find(queue, offset, chosen.ranges, parts, units)
        if parts is None:
            missing = (start for start, end in chosen.ranges if self._parts([(start, end)]) is None)
            found = next(((start, "it does not lie in the commit log") for start in missing), None)
        return None if found is None else (units_before(units, found[0]), *found)

    def read_now(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_count: int,
        max_bytes: int,
        accepts: AcceptsCode | None,
        choose: ChooseRecords | None = None,
        accepts_extension: AcceptsExtension | None = None,
    ) -> GetResult | None:
        """As ``read``, as long as nothing of it waits for the disk; None when it would.

        Tags that nearly no message has are looked for further on, which costs less than an answer without a message.
        """
        result: GetResult | None = None
        for _ in range(LOOKS_FOR_TAGS):
            outside = _outside(queue, offset)
            if outside is not None:
                return result or outside
            assert queue is not None, "a missing queue is outside"
            chosen = _Choice(max(max_count, 1), max_bytes, self._log.min_offset, self._log.files.file_size)
            further = self._look_now(queue, offset, chosen, accepts, choose, accepts_extension)
            if further is None or (result is not None and further.status not in _LOOKED):
                break
            result = further
            if result.status is not GetStatus.NO_MATCHED_MESSAGE or not chosen.at_once:
                break
            offset = result.next_begin_offset
        return result

    def _look_now(
        self,
        queue: ConsumeQueue,
        offset: int,
        chosen: _Choice,
        accepts: AcceptsCode | None,
        choose: ChooseRecords | None,
        accepts_extension: AcceptsExtension | None,
    ) -> GetResult | None:
        """Choose from the next units; None when the disk would have to be asked."""
        max_count = chosen.max_count
        filtered = accepts is not None or choose is not None
        units = queue.read_units_now(offset, max(LEAST_EXAMINED_NOW, max_count) if filtered else max_count)
        if not units:
            if units is None:
                return None
            return _nothing(queue, GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset))
        by_code = accepts
        if filtered and has_addresses(units):
            try:
                units, by_code = with_codes(queue.extension, units, accepts_extension, now=True), lenient(accepts)
            except NotInMemory:
                return None
        if choose is None:
            chosen.take(units, by_code)
            parts = self._parts_now(chosen.ranges)
        else:
            parts = self._filtered(chosen, units, max_count, by_code, choose, wait=False)
        if parts is None:
            return None
        if self._damage(queue, offset, chosen, parts, units) is not None:
            return self.read(queue, offset, max_count, chosen.max_bytes, accepts, choose, accepts_extension)
        return _found(queue, offset, chosen, parts)

    def _parts_now(self, ranges: list[tuple[int, int]]) -> list[bytes] | None:
        """The bytes of ranges of the log; None when the disk, or retention, has to be asked."""
        parts: list[bytes] = []
        for start, end, inside in _spans(ranges, self._log.files.file_size):
            data = self._span_now(start, end)
            if data is None:
                return None
            _cut(parts, start, data, inside)
        return parts

    def is_fresh(self, position: int) -> bool:
        """Whether what lies there was written so lately that it is in memory, whatever the system can tell."""
        return position >= max(self._log.checked_from, self._log.visible_end - FRESH_BYTES)

    def message_now(self, position: int, size: int) -> StoredMessage | None:
        """The message at a place of the log as long as that is in memory; None otherwise, or when none is there."""
        log = self._log
        file = log.files.find(position)
        if file is None or not 0 < size <= log.visible_end - position:
            return None
        start = position - file.start_offset
        data = file.read(start, size) if self.is_fresh(position) else file.read_now(start, size)
        if data is None or not HEAD_READ_BYTES - 24 <= len(data) == size or commit_log_offset_at(data) != position:
            return None
        try:
            return parse_record(data, check_crc=position < log.checked_from)
        except RecordError:
            return None

    def read_ahead(self, queue: ConsumeQueue, offset: int) -> None:
        """Ask for the records from ``offset`` on to be brought into memory, where a catching up consumer goes next.

        Blocks for the consume queue, not for the records.
        """
        largest = self._log.files.file_size
        start = end = -1
        ranges, total = 0, 0
        for position, size, _ in UNIT.iter_unpack(queue.read_units(offset, AHEAD_UNITS)):
            if not 0 < size <= largest or ranges >= AHEAD_RANGES or total >= AHEAD_BYTES:
                break
            if end < 0 or not end <= position <= end + AHEAD_GAP_BYTES:
                self._ask_for(start, end)
                ranges += 1
                start = end = position
            total += position + size - end
            end = position + size
        self._ask_for(start, end)

    def _ask_for(self, start: int, end: int) -> None:
        while 0 <= start < end and (file := self._log.files.find(start)) is not None:
            file.read_ahead(start - file.start_offset, end - start)
            start = file.start_offset + file.size

    def _parts(self, ranges: list[tuple[int, int]]) -> list[bytes] | None:
        """The bytes of ranges of the log; None when retention took one away meanwhile."""
        parts: list[bytes] = []
        for start, end, inside in _spans(ranges, self._log.files.file_size):
            file = self._log.files.find(start)
            data = b"" if file is None else file.read(start - file.start_offset, end - start)
            if len(data) != end - start:
                return None
            _cut(parts, start, data, inside)
        return parts

    def _filtered(
        self,
        chosen: _Choice,
        units: bytes,
        count: int,
        accepts: AcceptsCode | None,
        choose: ChooseRecords,
        *,
        wait: bool,
    ) -> list[bytes] | None:
        """The records chosen by what is in them, looked into many at a time, twice as many each time.

        :param count: of records in the first read, as many as are wanted at most.
        :param wait: for the disk. Else records that are in memory are an answer also when those behind them are not,
            and None says that the first is not.
        """
        parts: list[bytes] = []
        while chosen.examined * UNIT.size < len(units) and chosen.left > 0:
            spans, stop = chosen.spans(units, count, accepts)
            for span, data in self._buffers(spans, wait=wait):
                if data is not None:
                    if not chosen.take_from(span, data, choose, parts):
                        return parts
                elif wait:
                    chosen.gone = True
                else:
                    chosen.examined = span.number(0)
                    return parts if chosen.examined else None
            chosen.examined = stop
            count *= 2
        return parts

    def _buffers(self, spans: Sequence[_Span], *, wait: bool) -> Iterator[tuple[_Span, bytes | None]]:
        """Spans with their bytes; None for those that are not there or, unless ``wait``, not in memory.

        Waiting takes apart what is not read as one, for some of its records may be there.
        """
        for span in spans:
            if not wait:
                yield span, self._span_now(span.start, span.end)
                continue
            data = self._span(span)
            if data is not None:
                yield span, data
                continue
            for each in span.apart():
                yield each, self._log.record_at(each.start, each.end - each.start)

    def _span(self, span: _Span) -> bytes | None:
        """The bytes of a span in which every record lies where its unit says."""
        file = self._log.files.find(span.start)
        if file is None or span.end > self._log.visible_end:
            return None
        data = file.read(span.start - file.start_offset, span.end - span.start)
        if len(data) != span.end - span.start:
            return None
        for position, size, _ in UNIT.iter_unpack(span.units):
            if size < MIN_RECORD_BYTES or commit_log_offset_at(data, position - span.start) != position:
                return None
        return data

    def _span_now(self, start: int, end: int) -> bytes | None:
        """Bytes of one file of the log; None when the disk, or retention, has to be asked."""
        log = self._log
        file = log.files.find(start)
        if file is None:
            return None
        position = start - file.start_offset
        data = file.read(position, end - start) if self.is_fresh(start) else file.read_now(position, end - start)
        return data if data is not None and len(data) == end - start else None

    def is_near(self, queue: ConsumeQueue, offset: int, distance_bytes: int) -> bool:
        """Whether a message lies at most so far behind the log's end; False when the disk would have to be asked."""
        units = queue.read_units_now(offset, 1)
        if not units:
            return False
        position: int = UNIT.unpack_from(units)[0]
        return self._log.visible_end - position <= distance_bytes

    def stored_at_ms(self, queue: ConsumeQueue, offset: int) -> int:
        """When a queue's message was stored; −1 when there is none."""
        unit = queue.unit(offset)
        return -1 if unit is None else self._log.stored_at_ms(unit[0])

    def offset_at_time(self, queue: ConsumeQueue, timestamp_ms: int, *, upper: bool) -> int:
        """The first offset stored at a time or later, the end when none; with ``upper`` the last one stored at
        it or earlier, 0 when none. Store times of a queue never fall, so halving finds it.
        """
        offsets = range(queue.min_offset, queue.max_offset)
        stored = partial(self.stored_at_ms, queue)
        if not upper:
            return queue.min_offset + bisect_left(offsets, timestamp_ms, key=stored)
        found = bisect_right(offsets, timestamp_ms, key=stored)
        return queue.min_offset + found - 1 if found else 0


class _Span:
    """Records near each other, read at once: the part of the log from the first to the last, and their units.

    A plain class, which gets the units by runs of neighbours: what is done for each record costs most.
    """

    __slots__ = ("_first_numbers", "_runs", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._first_numbers: list[int] = []
        self._runs: list[bytes] = []

    @property
    def units(self) -> bytes:
        """The units of the records, without those passed over."""
        return b"".join(self._runs)

    def add(self, first_number: int, units: bytes, end: int) -> None:
        """More records, with units one behind the other; the last of them ends at ``end`` in the log."""
        self._first_numbers.append(first_number)
        self._runs.append(units)
        self.end = end

    def number(self, index: int) -> int:
        """Of a record's unit, among all that are looked at."""
        for first_number, units in zip(self._first_numbers, self._runs, strict=True):
            if index * UNIT.size < len(units):
                return first_number + index
            index -= len(units) // UNIT.size
        raise IndexError(index)

    def apart(self) -> Iterator[_Span]:
        """Each record as a span of its own."""
        units = self.units
        for index, (position, size, _) in enumerate(UNIT.iter_unpack(units)):
            single = _Span(position)
            single.add(self.number(index), units[index * UNIT.size : (index + 1) * UNIT.size], position + size)
            yield single


class _Choice:
    """The records one read returns, as ranges of the log. A plain class: filled in a loop."""

    __slots__ = (
        "_largest",
        "_log_min",
        "at_once",
        "count",
        "examined",
        "gone",
        "has_looked",
        "last_size",
        "left",
        "max_bytes",
        "max_count",
        "ranges",
        "total_bytes",
    )

    def __init__(self, max_count: int, max_bytes: int, log_min: int, largest: int) -> None:
        self._largest = largest
        self.max_count = max_count
        self.max_bytes = max_bytes
        self._log_min = log_min
        self.count = 0
        self.total_bytes = 0
        self.examined = 0
        self.gone = False
        self.has_looked = False
        """Some record was looked into."""
        self.at_once = False
        """The units were looked at all at once."""
        self.last_size = 0
        self.left = FILTERED_BYTES
        self.ranges: list[tuple[int, int]] = []

    def is_full(self, size: int) -> bool:
        """Whether a record of this size does not go in any more; the first one always does."""
        return self.count >= self.max_count or (self.count > 0 and self.total_bytes + size > self.max_bytes)

    def spans(self, units: bytes, count: int, accepts: AcceptsCode | None) -> tuple[list[_Span], int]:
        """Where the records of the next units lie that are to be looked into, and the unit to go on from.

        They are ``count`` and have ``left`` bytes at most, or are one. Machine integers, read in place: most records
        are not wanted, so that nothing else is made of their units.
        """
        spans: list[_Span] = []
        unit_bytes: i64 = UNIT_BYTES
        size_at: i64 = _SIZE_AT
        code_at: i64 = _CODE_AT
        gap_bytes: i64 = SPAN_GAP_BYTES
        log_min: i64 = self._log_min
        largest: i64 = self._largest
        left: i64 = self.left
        wanted: i64 = count
        stop: i64 = len(units) // unit_bytes
        last: i64 = self.ranges[-1][0] if self.ranges else -1  # a batch has several units
        span: _Span | None = None
        first: i64 = 0
        behind: i64 = 0
        end: i64 = -1
        most_end: i64 = -1
        number: i64 = self.examined
        while number < stop:
            at = number * unit_bytes
            position = read_i64_be(units, at)
            size = i64(read_i32_be(units, at + size_at))
            if position < log_min or not 0 < size <= largest:  # deleted, a filler, or no size of a record
                self.gone = True
            elif position != last and (accepts is None or accepts(read_i64_be(units, at + code_at))):
                if span is not None and (wanted <= 0 or size > left):
                    break
                is_near = span is not None and 0 <= position - end <= gap_bytes and position + size <= most_end
                if not is_near or number != behind:
                    if span is not None:
                        span.add(first, units[first * unit_bytes : behind * unit_bytes], end)
                    first = number
                if not is_near:
                    span = _Span(position)
                    spans.append(span)
                    most_end = min((position // largest + 1) * largest, position + SPAN_BYTES)
                last = position
                end = position + size
                left -= size
                wanted -= 1
                behind = number + 1
            number += 1
        if span is not None:
            span.add(first, units[first * unit_bytes : behind * unit_bytes], end)
        self.left = left
        return spans, number

    def take_from(self, span: _Span, data: bytes, choose: ChooseRecords, parts: list[bytes]) -> bool:
        """Take what is wanted of a span.

        False when no more go in, or no more may be looked into: ``examined`` then says where to go on.
        """
        units = span.units
        indices, looked = choose(data, span.start, units, 0 if self.has_looked else 1)
        self.has_looked = True
        for index in indices:
            position, size, _ = UNIT.unpack_from(units, index * UNIT.size)
            if self.is_full(size):
                self.examined = span.number(index)
                return False
            start = position - span.start
            parts.append(data[start : start + size])
            self.add((position, position + size))
            if self.count >= self.max_count:
                self.examined = span.number(index) + 1
                return False
        if looked * UNIT_BYTES < len(units):
            self.examined = span.number(looked)
            return False
        return True

    def add(self, where: Range) -> None:
        """Take one more record."""
        self.last_size = where[1] - where[0]
        self.ranges.append(where)
        self.count += 1
        self.total_bytes += where[1] - where[0]

    def batch_end(self, parts: list[bytes]) -> int:
        """The offset behind the last record chosen when that holds several messages, else 0: it is read once."""
        if not self.ranges or not parts[-1][FLAGS_AT + len(parts[-1]) - self.last_size] & SysFlag.INNER_BATCH:
            return 0
        return inner_offsets(parse_record(parts[-1][-self.last_size :], with_body=False)).stop

    def odd_unit(self, units: bytes) -> tuple[int, int, str] | None:
        """The first of the examined units whose size no record has and no filler: its number, where it leads, why."""
        for number, (position, size, _) in enumerate(UNIT.iter_unpack(units[: self.examined * UNIT.size])):
            if position >= self._log_min and not 0 < size <= self._largest and size != FILLER_SIZE:
                return number, position, f"its consume queue unit says it has {size} bytes"
        return None

    def take(self, units: bytes, accepts: AcceptsCode | None) -> None:
        """Choose from units; neighbours in the log become one range."""
        if isinstance(accepts, WantedCodes) and self._take_rare(units, accepts):
            return
        for at in range(0, len(units), BLOCK_BYTES):
            block = units[at : at + BLOCK_BYTES]
            if accepts is None and len(block) == BLOCK_BYTES and self.count + BLOCK_UNITS <= self.max_count:
                fields = _BLOCK.unpack(block)
                positions, sizes = fields[::_FIELDS], fields[1::_FIELDS]
                if self._are_neighbours(positions, sizes):
                    self._add_neighbours(positions, sizes)
                    continue
            if not self._take_each(block, accepts):
                break

    def _take_rare(self, units: bytes, accepts: WantedCodes) -> bool:
        """Choose from units of which few are wanted; False, with nothing done, when each has to be looked at."""
        position: int = UNIT.unpack_from(units)[0]
        if position < self._log_min or not have_sizes(units, self._largest):
            return False
        numbers = accepts.rare_in(units)
        if numbers is None:
            return False
        self.at_once = True
        for number in numbers:
            self.examined = number
            at = number * UNIT_BYTES
            if not self._take_each(units[at : at + UNIT_BYTES], accepts) or self.count >= self.max_count:
                return True
        self.examined = len(units) // UNIT_BYTES
        return True

    def _add_neighbours(self, positions: Sequence[int], sizes: Sequence[int]) -> None:
        """Take a block of records that lie one behind the other."""
        first, end = positions[0], positions[-1] + sizes[-1]
        self.count += len(sizes)
        self.examined += len(sizes)
        self.total_bytes += end - first
        self.last_size = sizes[-1]
        if self.ranges and self.ranges[-1][1] == first:
            first, _ = self.ranges.pop()
        self.ranges.append((first, end))

    def _take_each(self, block: bytes, accepts: AcceptsCode | None) -> bool:
        """Choose from units one by one; False when no more go in."""
        count, total, examined, last_size = self.count, self.total_bytes, self.examined, self.last_size
        max_count, max_bytes, log_min, largest = self.max_count, self.max_bytes, self._log_min, self._largest
        ranges = self.ranges
        start, end = ranges.pop() if ranges else (-1, -1)
        has_room = True
        position: int
        size: int
        code: int
        for position, size, code in UNIT.iter_unpack(block):
            if count >= max_count or (count and size <= largest and total + size > max_bytes):
                has_room = False
                break
            examined += 1
            if position < log_min or not 0 < size <= largest:  # deleted, a filler, or no size of a record
                self.gone = True
                continue
            if accepts is not None and not accepts(code):
                continue
            count += 1
            total += size
            last_size = size
            if position == end:
                end += size
            elif position + size == end:
                total -= size  # the next message of the same record
            else:
                if end >= 0:
                    ranges.append((start, end))
                start, end = position, position + size
        if end >= 0:
            ranges.append((start, end))
        self.count, self.total_bytes, self.examined = count, total, examined
        self.last_size = last_size
        return has_room

    def _are_neighbours(self, positions: Sequence[int], sizes: Sequence[int]) -> bool:
        """Whether all records are there, go in, and nothing lies between them."""
        first, end = positions[0], positions[-1] + sizes[-1]
        return (
            first >= self._log_min
            and (not self.ranges or first >= self.ranges[-1][1])  # else the rest of a batch
            and 0 < end - first <= self.max_bytes - self.total_bytes
            and min(sizes) > 0
            and max(sizes) <= self._largest
            and list(map(add, positions[:-1], sizes)) == list(positions[1:])
        )


def _spans(ranges: Sequence[Range], file_size: int) -> Sequence[tuple[int, int, Sequence[Range]]]:
    """Ranges of the log that are read at once: (start, end, the ranges in it).

    A queue's messages mostly lie between those of other queues.
    """
    if len(ranges) == 1:
        return ((*ranges[0], ranges),)
    spans: list[tuple[int, int, list[Range]]] = []
    inside: list[Range] = []
    start = end = file_end = -1
    for each in ranges:
        if 0 <= each[0] - end <= SPAN_GAP_BYTES and each[1] <= file_end and each[1] - start <= SPAN_BYTES:
            end = each[1]
            inside.append(each)
            continue
        if inside:
            spans.append((start, end, inside))
        start, end = each
        file_end = (start // file_size + 1) * file_size
        inside = [each]
    if inside:
        spans.append((start, end, inside))
    return spans


def _cut(parts: list[bytes], start: int, data: bytes, inside: Sequence[Range]) -> None:
    """Add the ranges of a span, which starts at an offset of the log, to ``parts``."""
    if len(inside) == 1:
        parts.append(data)
    else:
        parts += [data[first - start : end - start] for first, end in inside]


def _found(queue: ConsumeQueue, offset: int, chosen: _Choice, parts: list[bytes] | None) -> GetResult:
    next_offset = offset + chosen.examined
    if parts is not None and (batch_end := chosen.batch_end(parts)) > next_offset:
        next_offset = batch_end
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


def _damaged(queue: ConsumeQueue, offset: int, remark: str) -> GetResult:
    return GetResult(GetStatus.MESSAGE_DAMAGED, offset, queue.min_offset, queue.max_offset, remark=remark)


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
