"""A check of one consume queue file: how many units it has, found in its last bytes or by a binary search."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from gateway.store.disk.files import FileLayer
from wire.disk.consume_queue import FILLER_SIZE, UNIT, UNIT_BYTES, is_filler, is_written

Unit = tuple[int, int, int]

TAIL_BYTES = 4096
"""The number of bytes read at the end of a file's data: the last unit is nearly always among them."""


def is_past(unit: Unit, limit: int | None) -> bool:
    """Return whether a unit is empty, or belongs to a message at or above the commit log offset ``limit``."""
    position, size, _ = unit
    if not is_written(position, size):
        return True
    if limit is None:
        return False
    return position > limit if size == FILLER_SIZE else position >= limit


def end_of(unit: Unit) -> int:
    """Return the commit log offset after the message of a unit; −1 for a filler.

    A unit that leads over a gap holds the end of the message before the gap, and no size.
    """
    position, size, _ = unit
    if is_filler(position, size):
        return -1
    return position if size == FILLER_SIZE else position + size


def lowest_behind(unit: Unit) -> int:
    """Return the lowest offset at which the next message can lie.

    Units that lead over a gap all lie at the end of the message before the gap.
    """
    position, size, _ = unit
    return position if size == FILLER_SIZE else position + 1


class FileEnd(NamedTuple):
    """The number of units in a file, and the two figures that a queue keeps from loading."""

    start: int
    units: int
    first_position: int | None
    last_end: int | None


def file_end(files: FileLayer, fd: int, start: int, size: int) -> FileEnd:
    """Return the end of a file's units: from the last bytes that are not a hole, otherwise by a binary search."""
    ranges = files.data_ranges(fd, 0, size)
    stop = min(-(-ranges[-1][1] // UNIT_BYTES) * UNIT_BYTES, size) if ranges else 0
    low = max(stop - TAIL_BYTES, 0) // UNIT_BYTES * UNIT_BYTES
    tail = files.pread(fd, stop - low, low)
    used = _used_units(tail)
    if low and not used:
        below = range(low // UNIT_BYTES)
        units = bisect_left(below, True, key=lambda unit: is_past(_read_unit(files, fd, unit), None))
        return FileEnd(start, units, None, None)
    if not used:
        return FileEnd(start, 0, None, None)
    rest = tail[used * UNIT_BYTES :]
    is_end = rest == bytes(len(rest))
    last_end = end_of(_unit_in(tail, used - 1))
    position, length, _ = _unit_in(tail, 0) if low == 0 else _read_unit(files, fd, 0)
    first_position = -1 if is_filler(position, length) else position
    return FileEnd(start, low // UNIT_BYTES + used, first_position, last_end if is_end else None)


def _used_units(tail: bytes) -> int:
    low, high = 0, len(tail) // UNIT_BYTES
    while low < high:  # bisect with a key takes three times as long
        middle = (low + high) // 2
        if is_past(_unit_in(tail, middle), None):
            high = middle
        else:
            low = middle + 1
    return low


def _unit_in(data: bytes, number: int) -> Unit:
    return UNIT.unpack_from(data, number * UNIT_BYTES)


def _read_unit(files: FileLayer, fd: int, number: int) -> Unit:
    return UNIT.unpack_from(files.pread(fd, UNIT_BYTES, number * UNIT_BYTES).ljust(UNIT_BYTES, b"\x00"))
