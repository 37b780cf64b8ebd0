"""Java's ``String.hashCode()``: it decides tags codes in consume queues and slots in index files.

    h = 0; for every UTF-16 unit u: h = 31 * h + u, kept to 32 bits, read as signed

A loop in Python costs 2–3 µs for a unique key of 32 characters. The text is cut instead, since
hash(a + b) = hash(a) · 31^len(b) + hash(b): its head (topic, address, process id, instance, minute: the same
for the messages that one producer sends within 65 s) is looked up in a bounded cache, and its last eight
characters are taken as four pairs, each pair's hash from a table.
"""

from __future__ import annotations

import struct
import sys
from array import array
from operator import mul

_MASK = 0xFFFFFFFF
_TAIL_CHARS = 8  # four pairs: what changes in a unique key from message to message
_BLOCK_CHARS = 256  # powers are kept for this many characters; longer text goes block by block
MAX_CACHED_HEADS = 4096
"""Heads remembered; the cache is emptied when it is full."""
MAX_CACHED_HEAD_CHARS = 192
"""Longer heads are computed each time. A topic and the head of a unique key take 127 + 1 + 24 at most."""

_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_BLOCK_CHARS, -1, -1))
"""31^256 … 31^0, so that the last n entries weigh n characters."""
_P8, _P6, _P4, _P2 = (pow(31, exponent, 1 << 32) for exponent in (8, 6, 4, 2))
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_four_pairs = struct.Struct(">4H").unpack


def _pair_table() -> list[int]:
    """31·a + b at index 256·a + b for all ASCII pairs; equal numbers are one object, so it takes 256 KiB."""
    numbers = list(range(31 * 127 + 127 + 1))
    pairs: list[int] = []
    for first in range(128):
        pairs += numbers[31 * first : 31 * first + 128]
        pairs += numbers[:1] * 128  # no ASCII character: never asked for
    return pairs


_PAIRS = _pair_table()
_heads: dict[str, int] = {}


def _weigh(units: bytes | array[int]) -> int:
    """The unsigned hash of UTF-16 units, at C speed in blocks."""
    hashed = 0
    for start in range(0, len(units), _BLOCK_CHARS):
        block = units[start : start + _BLOCK_CHARS]
        count = len(block)
        weighed: int = sum(map(mul, _POWERS[-count:], block))
        hashed = (hashed * _POWERS[-count - 1] + weighed) & _MASK
    return hashed


def _utf16_units(text: str) -> array[int]:
    return array("H", text.encode(_UTF_16, "surrogatepass"))


def _head_hash(head: str) -> int:
    """The head's part in the hash of the whole, and remember it."""
    hashed = _weigh(head.encode()) * _P8 & _MASK
    if len(head) <= MAX_CACHED_HEAD_CHARS:
        if len(_heads) >= MAX_CACHED_HEADS:
            _heads.clear()
        _heads[head] = hashed
    return hashed


def unsigned_hash(text: str) -> int:
    """``hashCode`` as an unsigned 32-bit number."""
    if not text.isascii():
        return _weigh(_utf16_units(text))
    if len(text) < _TAIL_CHARS:
        return _weigh(text.encode())
    head = text[:-_TAIL_CHARS]
    hashed = _heads.get(head)
    if hashed is None:
        hashed = _head_hash(head)
    a, b, c, d = _four_pairs(text[-_TAIL_CHARS:].encode())
    tail: int = _PAIRS[a] * _P6 + _PAIRS[b] * _P4 + _PAIRS[c] * _P2 + _PAIRS[d]
    return (hashed + tail) & _MASK


def java_string_hash(text: str) -> int:
    """``text.hashCode()`` as Java returns it: a signed 32-bit number."""
    hashed = unsigned_hash(text)
    return hashed - 0x1_0000_0000 if hashed & 0x8000_0000 else hashed


def index_key_hash(topic: str, key: str) -> int:
    """The hash an index file keeps for a key: of ``topic#key``, made positive; 0 … 2^31−1.

    Integer.MIN_VALUE, which has no positive counterpart, becomes 0 (upstream
    ``IndexFile.indexKeyHashMethod``).
    """
    hashed = unsigned_hash(f"{topic}#{key}")
    if hashed & 0x8000_0000:
        hashed = 0x1_0000_0000 - hashed
        return 0 if hashed == 0x8000_0000 else hashed
    return hashed
