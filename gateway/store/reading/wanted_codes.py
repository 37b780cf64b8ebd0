"""The tags codes that a subscription wants, searched in many units of a consume queue at once.

If a filter pays, most messages are not wanted, and such a read mainly costs the examination of each unit. Here the
bytes at one place of all units are examined at once. One pass over the last bytes of the codes finds the few units that
may be wanted; one pass over the bytes of the sizes shows that all units lead to records.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from wire.disk.consume_queue import UNIT, UNIT_BYTES

RARE = 8
"""The rarity of wanted units: they are examined alone if at most one unit in this many may be wanted."""

_SIZE_AT = UNIT.offset("size")
_SIZE_BYTES = UNIT.offset("tags_code") - _SIZE_AT
_LAST_AT = UNIT_BYTES - 1
_ALL_BYTES = bytes(range(256))


class WantedCodes:
    """A filter that returns whether a tags code is wanted. A plain class: each pull makes one.

    :param codes: signed 32-bit numbers, as the hashes of tags are.
    """

    __slots__ = ("_codes", "_marks")

    def __init__(self, codes: frozenset[int]) -> None:
        self._codes = codes
        marks = bytearray(256)
        for code in codes:
            marks[code & 0xFF] = 1
        self._marks = bytes(marks)

    def __call__(self, code: int) -> bool:
        """Return whether a message with this code is wanted."""
        return code in self._codes

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
