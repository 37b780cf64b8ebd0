"""The tags codes a reader wants, and where units of a consume queue may have them, without looking at each unit.

A consumer of rare tags passes over thousands of units for each message. They are looked at by column: their last bytes
in one string, which is searched for those of the codes. That takes a hundredth of a microsecond a unit, unpacking it
a tenth.
"""

from __future__ import annotations

from collections.abc import Collection

from wire.disk.consume_queue import UNIT

USUAL_BYTES = 1 << 24
"""Records are smaller: the first byte of their four-byte sizes is 0."""

_SIZE_AT = UNIT.offset("size")
_LAST_BYTE_AT = UNIT.size - 1  # the tags code is the last field


class WantedCodes:
    """A filter of tags codes: called with one it says whether that is wanted.

    :param codes: signed 64-bit numbers, one at least.
    """

    __slots__ = ("_codes", "_first", "_same", "_several")

    def __init__(self, codes: Collection[int]) -> None:
        last_bytes = bytes({code & 0xFF for code in codes})
        self._codes = frozenset(codes)
        self._first = last_bytes[:1]
        self._several = len(last_bytes) > 1
        self._same = bytes.maketrans(last_bytes, self._first * len(last_bytes))

    def __call__(self, code: int) -> bool:
        """Whether a code is wanted."""
        return code in self._codes

    def numbers(self, units: bytes) -> list[int]:
        """Which of the units may have a wanted code, in order: all that do, and some that do not."""
        column = units[_LAST_BYTE_AT :: UNIT.size]
        if self._several:
            column = column.translate(self._same)
        found: list[int] = []
        number = column.find(self._first)
        while number >= 0:
            found.append(number)
            number = column.find(self._first, number + 1)
        return found


def have_usual_sizes(units: bytes) -> bool:
    """Whether every unit has a size above 0 and below ``USUAL_BYTES``; False for fillers and damaged ones."""
    count = len(units) // UNIT.size
    if units[_SIZE_AT :: UNIT.size].count(0) != count:
        return False
    low, middle, high = (int.from_bytes(units[_SIZE_AT + byte :: UNIT.size], "little") for byte in (3, 2, 1))
    return 0 not in (low | middle | high).to_bytes(count, "little")
