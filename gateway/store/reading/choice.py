"""The choice of records by their consume queue units, and of the parts of the log that are read at once.

Pure: units and records come in as bytes, and nothing here knows where they are read from.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from gateway.store.queues.extended_units import AcceptsCode
from gateway.store.reading.wanted import ChooseRecords, WantedCodes, have_sizes
from wire.disk.consume_queue import FILLER_SIZE, UNIT, UNIT_BYTES
from wire.message.batch import inner_offsets
from wire.message.flags import SysFlag
from wire.message.record import parse_record
from wire.message.record_layout import FLAGS_AT

SPAN_GAP_BYTES = 8192
"""The most bytes between records that are read at once and cut apart: to copy them costs less than a system call."""
SPAN_BYTES = 1024 * 1024
"""The most bytes read at once, unless one range is larger."""
FILTERED_BYTES = 4 * 1024 * 1024
"""The most bytes of records that one read examines without waiting.

Others then get their turn, and the consumer comes back at once.
"""
BLOCK_UNITS = 64
"""The number of units examined at once.

If their records are neighbours, thousands of units cost a bulk reader little.
"""
BLOCK_BYTES = BLOCK_UNITS * UNIT.size

_BLOCK = UNIT.repeated(BLOCK_UNITS)
_FIELDS = len(UNIT.names)
_SIZE_AT = UNIT.offset("size")
_CODE_AT = UNIT.offset("tags_code")

Range = tuple[int, int]
"""The commit log offset of the first byte, and the offset after the last byte."""


class Span:
    """Records near each other that are read at once: a part of the log, and the units of the records.

    A plain class that gets the units by runs of neighbours, because work for each record costs most.
    """

    __slots__ = ("_first_numbers", "_runs", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._first_numbers: list[int] = []
        self._runs: list[bytes] = []

    @property
    def units(self) -> bytes:
        """The units of the chosen records, without the units between them."""
        return b"".join(self._runs)

    def add(self, first_number: int, units: bytes, end: int) -> None:
        """Add more records, whose units follow each other; the last record ends at log offset ``end``."""
        self._first_numbers.append(first_number)
        self._runs.append(units)
        self.end = end

    def number(self, index: int) -> int:
        """Return the number of a record's unit among all units of the read."""
        for first_number, units in zip(self._first_numbers, self._runs, strict=True):
            if index * UNIT.size < len(units):
                return first_number + index
            index -= len(units) // UNIT.size
        raise IndexError(index)

    def apart(self) -> Iterator[Span]:
        """Yield each record as a span of its own."""
        units = self.units
        for index, (position, size, _) in enumerate(UNIT.iter_unpack(units)):
            single = Span(position)
            single.add(self.number(index), units[index * UNIT.size : (index + 1) * UNIT.size], position + size)
            yield single


class Choice:
    """The records that one read returns, as ranges of the log. A plain class, filled in a loop.

    :param max_count: the most messages to choose.
    :param log_min: the commit log offset of the first record that still existed when the choice started.
    :param largest: the most bytes that a record has.
    :param max_units: the most units that are examined; None: as many as the source of the units says.
    """

    def __init__(
        self, max_count: int, max_bytes: int, log_min: int, largest: int, max_units: int | None = None
    ) -> None:
        self._largest = largest
        self.max_units = max_units
        self.max_count = max_count
        self.max_bytes = max_bytes
        self.log_min = log_min
        self.count = 0
        self.total_bytes = 0
        self.examined = 0
        self.gone = False
        self.has_looked = False
        """True if at least one record was examined."""
        self.at_once = False
        """True if all units were examined at once."""
        self.last_size = 0
        self.left = FILTERED_BYTES
        self.ranges: list[Range] = []

    def again(self, log_min: int) -> Choice:
        """Return an empty choice with the same limits."""
        return Choice(self.max_count, self.max_bytes, log_min, self._largest, self.max_units)

    def is_full(self, size: int) -> bool:
        """Return whether a record of this size no longer fits; the first record always does."""
        return self.count >= self.max_count or (self.count > 0 and self.total_bytes + size > self.max_bytes)

    def spans(self, units: bytes, count: int, accepts: AcceptsCode | None) -> tuple[list[Span], int]:
        """Return the spans of the next records to examine, and the number of the unit to go on from.

        The records are at most ``count`` and have at most ``left`` bytes, or there is one record. The code uses machine
        integers, read in place: most records are not wanted, so nothing else is made of their units.
        """
        spans: list[Span] = []
        unit_bytes: i64 = UNIT_BYTES
        size_at: i64 = _SIZE_AT
        code_at: i64 = _CODE_AT
        gap_bytes: i64 = SPAN_GAP_BYTES
        log_min: i64 = self.log_min
        largest: i64 = self._largest
        left: i64 = self.left
        wanted: i64 = count
        stop: i64 = len(units) // unit_bytes
        last: i64 = self.ranges[-1][0] if self.ranges else -1  # the units of one batch lead to one record
        span: Span | None = None
        first: i64 = 0
        behind: i64 = 0
        end: i64 = -1
        most_end: i64 = -1
        number: i64 = self.examined
        while number < stop:
            at = number * unit_bytes
            position = read_i64_be(units, at)
            size = i64(read_i32_be(units, at + size_at))
            if position < log_min or not 0 < size <= largest:  # deleted, a filler, or an impossible size
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
                    span = Span(position)
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

    def take_from(self, span: Span, data: bytes, choose: ChooseRecords, parts: list[bytes]) -> bool:
        """Take the wanted records of a span.

        Return False if no more records fit, or if no more may be examined: ``examined`` then says where to go on.
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
        """Return the offset after the last chosen record if that record holds several messages; otherwise 0.

        A record with several messages is read once.
        """
        if not self.ranges or not parts[-1][FLAGS_AT + len(parts[-1]) - self.last_size] & SysFlag.INNER_BATCH:
            return 0
        return inner_offsets(parse_record(parts[-1][-self.last_size :], with_body=False)).stop

    def odd_unit(self, units: bytes) -> tuple[int, int, str] | None:
        """Return the first examined unit whose size fits neither a record nor a filler; None if there is none.

        The result holds the unit's number, its commit log offset, and what is wrong.
        """
        for number, (position, size, _) in enumerate(UNIT.iter_unpack(units[: self.examined * UNIT.size])):
            if position >= self.log_min and not 0 < size <= self._largest and size != FILLER_SIZE:
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
        """Choose from units of which few are wanted.

        Return False, with nothing done, if each unit has to be examined.
        """
        position: int = UNIT.unpack_from(units)[0]
        if position < self.log_min or not have_sizes(units, self._largest):
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
        """Take a block of records that follow each other in the log."""
        first, end = positions[0], positions[-1] + sizes[-1]
        self.count += len(sizes)
        self.examined += len(sizes)
        self.total_bytes += end - first
        self.last_size = sizes[-1]
        if self.ranges and self.ranges[-1][1] == first:
            first, _ = self.ranges.pop()
        self.ranges.append((first, end))

    def _take_each(self, block: bytes, accepts: AcceptsCode | None) -> bool:
        """Choose from units one by one; return False if no more records fit."""
        count, total, examined, last_size = self.count, self.total_bytes, self.examined, self.last_size
        max_count, max_bytes, log_min, largest = self.max_count, self.max_bytes, self.log_min, self._largest
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
            if position < log_min or not 0 < size <= largest:  # deleted, a filler, or an impossible size
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
        """Return whether all records exist and fit, and nothing lies between them."""
        first, end = positions[0], positions[-1] + sizes[-1]
        return (
            first >= self.log_min
            and (not self.ranges or first >= self.ranges[-1][1])  # otherwise they continue a batch
            and 0 < end - first <= self.max_bytes - self.total_bytes
            and min(sizes) > 0
            and max(sizes) <= self._largest
            and list(map(add, positions[:-1], sizes)) == list(positions[1:])
        )


def spans_of(ranges: Sequence[Range], file_size: int) -> Sequence[tuple[int, int, Sequence[Range]]]:
    """Return the parts of the log that are read at once: (start, end, the ranges inside) for each.

    A queue's messages mostly lie between messages of other queues.
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


def cut(parts: list[bytes], start: int, data: bytes, inside: Sequence[Range]) -> None:
    """Add the ranges of a span to ``parts``; the span starts at offset ``start`` of the log."""
    if len(inside) == 1:
        parts.append(data)
    else:
        parts += [data[first - start : end - start] for first, end in inside]
