"""Consume queue units of many records at once, moved as four-byte words in whole columns.

A *row* is the head of a record, perhaps with more behind it; rows of one length are taken together as their *words*.
What a unit repeats is moved without being turned into a number, so the byte order of the machine does not matter.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

from wire.disk.consume_queue import UNIT_BYTES
from wire.message.record_layout import HEADS

CODE_BYTES = 8
WORD_BYTES = 4
QUEUE_OFFSET_AT, LOG_OFFSET_AT = (HEADS[0].offset(name) // WORD_BYTES for name in ("queue_offset", "commit_log_offset"))
"""Before the first host: the same words of all heads."""
_UNIT_WORDS = UNIT_BYTES // WORD_BYTES
_CODE_WORDS = CODE_BYTES // WORD_BYTES
_SWAP = sys.byteorder == "little"


def as_words(rows: Iterable[bytes]) -> array[int]:
    """Rows of whole words, as they lie in the log."""
    return array("I", b"".join(rows))


def numbers(words: array[int], width: int, at: int) -> array[int]:
    """The eight bytes that begin with the word ``at`` of each row of ``width`` words, as signed numbers."""
    pairs = array("I", bytes(2 * WORD_BYTES * (len(words) // width)))
    pairs[0::2], pairs[1::2] = words[at::width], words[at + 1 :: width]
    found = array("q", pairs.tobytes())
    if _SWAP:
        found.byteswap()
    return found


def small_numbers(words: array[int], width: int, at: int) -> array[int]:
    """The word ``at`` of each row of ``width`` words, as a number without a sign."""
    found = words[at::width]
    if _SWAP:
        found.byteswap()
    return found


def queue_offsets(words: array[int], width: int) -> array[int]:
    """The queue offset of each row."""
    return numbers(words, width, QUEUE_OFFSET_AT)


def first_of_row(words: array[int], width: int) -> int | None:
    """The queue offset of the first row, when each further one is the next one's of the queue; None otherwise."""
    offsets = queue_offsets(words, width)
    first = offsets[0]
    return first if first >= 0 and offsets == array("q", range(first, first + len(offsets))) else None


def build_units(words: array[int], width: int, size: int, code: bytes | None) -> bytes:
    """The units of records of one size.

    :param words: rows of ``width`` words; with the tags code at the end of each when ``code`` is None.
    """
    count = len(words) // width
    ends = (words, width, width - _CODE_WORDS) if code is None else (array("I", code * count), _CODE_WORDS, 0)
    codes, stride, at = ends
    units = array("I", bytes(count * UNIT_BYTES))
    units[0::_UNIT_WORDS], units[1::_UNIT_WORDS] = words[LOG_OFFSET_AT::width], words[LOG_OFFSET_AT + 1 :: width]
    units[2::_UNIT_WORDS] = array("I", size.to_bytes(WORD_BYTES, "big") * count)
    units[3::_UNIT_WORDS], units[4::_UNIT_WORDS] = codes[at::stride], codes[at + 1 :: stride]
    return units.tobytes()
