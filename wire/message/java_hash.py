"""Java's ``String.hashCode()``, which gives the tags codes in consume queues and the slots in index files.

h = 0; for every UTF-16 unit u: h = 31 * h + u, kept to 32 bits, read as signed
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x8000_0000
_LAST_UNIT: Final = 0xFFFF
"""The last character of one UTF-16 unit; later characters take two units, a high one and then a low one."""
_FIRST_HIGH: Final = 0xD800 - (0x1_0000 >> 10)
_FIRST_LOW: Final = 0xDC00
_LOW_BITS: Final = 0x3FF


def hash_on(hashed: i64, text: str, start: i64 = 0) -> i64:
    """Continue a hash: return the unsigned 32-bit hash of a text whose head has the hash ``hashed``.

    The rest of the text is ``text[start:]``.
    """
    at: i64
    end: i64 = len(text)
    for at in range(start, end):
        unit: i64 = ord(text[at])
        if unit > _LAST_UNIT:
            hashed = (hashed * 31 + _FIRST_HIGH + (unit >> 10)) & _MASK
            unit = _FIRST_LOW + (unit & _LOW_BITS)
        hashed = (hashed * 31 + unit) & _MASK
    return hashed


def positive_hash(hashed: i64) -> i64:
    """Return an unsigned hash as index files keep it: read as signed and made positive; 0 … 2^31−1.

    Integer.MIN_VALUE has no positive counterpart and becomes 0 (upstream ``IndexFile.indexKeyHashMethod``).
    """
    if hashed < _SIGN:
        return hashed
    return 0 if hashed == _SIGN else _MASK + 1 - hashed


def unsigned_hash(text: str) -> int:
    """Return ``text.hashCode()`` as an unsigned 32-bit number."""
    return hash_on(0, text)


def java_string_hash(text: str) -> int:
    """Return ``text.hashCode()`` as Java does: a signed 32-bit number."""
    hashed = hash_on(0, text)
    return hashed - _MASK - 1 if hashed >= _SIGN else hashed


def index_key_hash(topic: str, key: str) -> int:
    """Return the hash that an index file keeps for a key: the positive hash of ``topic#key``."""
    return positive_hash(hash_on(0, f"{topic}#{key}"))
