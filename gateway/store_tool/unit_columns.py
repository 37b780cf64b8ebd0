"""Consume queue units of many records at once, moved as four-byte words in whole columns.

A *place* is what a record's head says in one piece: queue offset and commit log offset, 16 bytes. Words are never
turned into numbers here, so the byte order of the machine does not matter.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from wire.disk.consume_queue import UNIT_BYTES

PLACE_BYTES = 16
CODE_BYTES = 8
_WORD_BYTES = 4
_UNIT_WORDS = UNIT_BYTES // _WORD_BYTES
_PLACE_WORDS = PLACE_BYTES // _WORD_BYTES


def log_offsets_are(places: Sequence[bytes], offsets: range) -> bool:
    """Whether places name these commit log offsets, in their order."""
    return _pairs(_words(b"".join(places)), _PLACE_WORDS, 2) == _big_endian(offsets)


def first_of_row(rows: Sequence[bytes]) -> int | None:
    """The queue offset of the first place, when each further one is the next one's of the queue; None otherwise.

    :param rows: places, each perhaps followed by more, all of one length.
    """
    first = int.from_bytes(rows[0][:8], "big", signed=True)
    words = _words(b"".join(rows))
    wanted = _big_endian(range(first, first + len(rows)))
    return first if first >= 0 and _pairs(words, len(words) // len(rows), 0) == wanted else None


def build_units(rows: Sequence[bytes], size: int, code: bytes | None) -> bytes:
    """The units of records of one size.

    :param rows: places; with the tags code behind each of them when ``code`` is None.
    """
    count = len(rows)
    words = _words(b"".join(rows))
    width = len(words) // count
    codes, stride, at = (words, width, _PLACE_WORDS) if code is None else (_words(code * count), 2, 0)
    units = _words(bytes(count * UNIT_BYTES))
    units[0::_UNIT_WORDS], units[1::_UNIT_WORDS] = words[2::width], words[3::width]
    units[2::_UNIT_WORDS] = _words(size.to_bytes(_WORD_BYTES, "big") * count)
    units[3::_UNIT_WORDS], units[4::_UNIT_WORDS] = codes[at::stride], codes[at + 1 :: stride]
    return units.tobytes()


def _words(data: bytes) -> array[int]:
    return array("I", data)


def _pairs(words: array[int], width: int, at: int) -> array[int]:
    """The two words at ``at`` of each row of ``width`` words."""
    pairs = _words(bytes(2 * _WORD_BYTES * (len(words) // width)))
    pairs[0::2], pairs[1::2] = words[at::width], words[at + 1 :: width]
    return pairs


def _big_endian(numbers: range) -> array[int]:
    """Eight bytes each, as words."""
    packed = array("q", numbers)
    if sys.byteorder == "little":
        packed.byteswap()
    return _words(packed.tobytes())
