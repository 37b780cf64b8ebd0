"""The messages of a queue that a read returns: filters by tags code, by the queue's extension and by whole records.

If a filter by tags pays, most messages are not wanted, and such a read mainly costs the examination of each unit. So
the bytes at one place of all units are examined at once. One pass over the last bytes of the codes finds the few units
that may be wanted; one pass over the bytes of the sizes shows that all units lead to records.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from sys import getsizeof
from typing import Final

from gateway.store.queues.extended_units import AcceptsCode, AcceptsExtension
from wire.disk.consume_queue import UNIT, UNIT_BYTES

ChooseRecords = Callable[[bytes, int, bytes, int], tuple[list[int], int]]
"""A function that returns the numbers of the wanted records in a buffer, and how many records were examined.

The arguments: the buffer; the commit log offset of its first byte; the records' units; how many records must be
examined whatever the cost.
"""


class Wanted:
    """The filters of one read; None lets every message through. A plain class for speed: many pulls make one.

    :param by_code: examines a tags code.
    :param by_record: examines whole records.
    :param by_extension: examines the data that the queue's extension has of a message; only used beside another filter.
    """

    __slots__ = ("by_code", "by_extension", "by_record", "is_filtered")

    def __init__(
        self,
        by_code: AcceptsCode | None = None,
        by_record: ChooseRecords | None = None,
        by_extension: AcceptsExtension | None = None,
    ) -> None:
        self.by_code = by_code
        self.by_record = by_record
        self.by_extension = by_extension
        self.is_filtered = by_code is not None or by_record is not None


ALL_WANTED: Final = Wanted()
"""The filters that let every message through."""


CODE_BYTES = 32
"""The bytes of a number in memory."""
RARE = 8
"""The rarity of wanted units: they are examined alone if at most one unit in this many may be wanted."""

_SIZE_AT = UNIT.offset("size")
_SIZE_BYTES = UNIT.offset("tags_code") - _SIZE_AT
_LAST_AT = UNIT_BYTES - 1
_ALL_BYTES = bytes(range(256))


class WantedCodes:
    """A filter that returns whether a tags code is wanted. A plain class for speed: each pull makes one.

    :param codes: signed 32-bit numbers, as the hashes of tags are.
    """

    __slots__ = ("_marks", "codes")

    def __init__(self, codes: frozenset[int]) -> None:
        self.codes = codes
        marks = bytearray(256)
        for code in codes:
            marks[code & 0xFF] = 1
        self._marks = bytes(marks)

    def __call__(self, code: int) -> bool:
        """Return whether a message with this code is wanted."""
        return code in self.codes

    @property
    def kept_bytes(self) -> int:
        """The bytes of the codes in memory: a set's table, and an object for each number."""
        return getsizeof(self.codes) + CODE_BYTES * len(self.codes)

    def rare_in(self, units: bytes) -> list[int] | None:
        """Return the numbers of the units that may be wanted, in order; None if these units are not rare."""
        marked = units[_LAST_AT::UNIT_BYTES].translate(self._marks)
        if marked.count(1) * RARE > len(marked):
            return None
        numbers: list[int] = []
        number = marked.find(1)
        while number >= 0:
            numbers.append(number)
            number = marked.find(1, number + 1)
        return numbers


def have_sizes(units: bytes, largest: int) -> bool:
    """Return whether all units have a size above zero and surely up to ``largest``, which a filler exceeds.

    The result is also False for some valid sizes: the highest byte of ``largest`` decides, so only lower sizes pass.
    """
    columns = [units[at::UNIT_BYTES] for at in range(_SIZE_AT, _SIZE_AT + _SIZE_BYTES)]
    any_bit = 0
    for column in columns:
        any_bit |= int.from_bytes(column, "big")
    if 0 in any_bit.to_bytes(len(columns[0]), "big"):
        return False
    for number, column in enumerate(columns):
        allowed = (largest + 1) >> 8 * (_SIZE_BYTES - 1 - number)
        if column.translate(None, _ALL_BYTES[: max(allowed, 1)]):
            return False
        if allowed:
            return True
    return False
