"""The tags codes a subscription wants, looked for in many units of a consume queue at once.

Where a filter pays, most messages are not wanted, and looking at each unit is what such a read costs. Here the bytes
that stand at the same place of all units are taken together: one pass over the last bytes of the codes finds the few
that may be wanted, one over the sizes' bytes shows that all units lead to records.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from wire.disk.consume_queue import UNIT, UNIT_BYTES

RARE = 8
"""Units are few enough to be looked at alone when they are one in so many."""

_SIZE_AT = UNIT.offset("size")
_SIZE_BYTES = UNIT.offset("tags_code") - _SIZE_AT
_LAST_AT = UNIT_BYTES - 1
_ALL_BYTES = bytes(range(256))


class WantedCodes:
    """A filter that is called with a tags code: whether it is one of some. A plain class: one is made for each pull.

    :param codes: signed, of 32 bits as the hashes of tags are.
    """

    __slots__ = ("_codes", "_marks")

    def __init__(self, codes: frozenset[int]) -> None:
        self._codes = codes
        marks = bytearray(256)
        for code in codes:
            marks[code & 0xFF] = 1
        self._marks = bytes(marks)

    def __call__(self, code: int) -> bool:
        """Whether a message with this code is wanted."""
        return code in self._codes

    def rare_in(self, units: bytes) -> list[int] | None:
        """The numbers of the units that may be wanted, in order; None when these are not rare."""
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
    """Whether all units have a size above zero and surely up to ``largest``, which a filler's is not.

    False also for some sizes that are all right: of the numbers with its highest byte ``largest`` allows those below.
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
