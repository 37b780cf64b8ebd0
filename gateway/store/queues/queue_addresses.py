"""The first and the last unit of a queue that lead to its extension, and the places to which they lead.

Both functions block.
"""

from __future__ import annotations

from typing import Protocol

from wire.disk.consume_queue import UNIT, UNIT_BYTES
from wire.disk.queue_extension import is_address, position_of

SEARCHED_UNITS = 4096
"""The number of units read at once by a search for an address."""
_CODE_AT = UNIT.offset("tags_code")
_FIRST_BYTE_OF_ADDRESS = b"\x80"


class ExtendedQueue(Protocol):
    """The part of a queue that a search needs."""

    min_offset: int
    max_offset: int
    starts: tuple[int, ...]

    @property
    def file_bytes(self) -> int:
        """The size of the queue's files in bytes."""

    def read_units(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` units from ``offset`` on; fewer if their file ends before."""


def last_address(queue: ExtendedQueue) -> int | None:
    """Return the extension's byte to which the last unit with an address leads; None if there is none."""
    first, end = queue.starts[0] // UNIT_BYTES if queue.starts else 0, queue.max_offset
    units_of_file = queue.file_bytes // UNIT_BYTES
    while end > first:
        low = max(first, (end - 1) // units_of_file * units_of_file, end - SEARCHED_UNITS)
        units = queue.read_units(low, end - low)
        if units[_CODE_AT::UNIT_BYTES].count(_FIRST_BYTE_OF_ADDRESS):
            codes = [code for _, _, code in UNIT.iter_unpack(units) if is_address(code)]
            if codes:
                return position_of(codes[-1])
        end = low
    return None


def first_address(queue: ExtendedQueue) -> int | None:
    """Return the extension's byte of the first remaining message with an address; None if none is near the minimum."""
    for _, _, code in UNIT.iter_unpack(queue.read_units(queue.min_offset, SEARCHED_UNITS)):
        if is_address(code):
            return position_of(code)
    return None
