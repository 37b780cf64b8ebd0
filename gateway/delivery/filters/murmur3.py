"""MurmurHash3, its 128-bit form for 64-bit machines, as far as Guava's ``murmur3_128().asLong()`` goes.

The algorithm is Austin Appleby's and in the public domain. No library is needed: a text is hashed when a filter is
registered, never for a message.
"""

from __future__ import annotations

_MASK = 2**64 - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_BLOCK_BYTES = 16


def low_64_bits(data: bytes) -> int:
    """Return the first eight bytes of the hash with seed 0, as an unsigned number whose lowest byte comes first."""
    h1 = h2 = 0
    whole = len(data) - len(data) % _BLOCK_BYTES
    for at in range(0, whole, _BLOCK_BYTES):
        h1 ^= _mixed_1(int.from_bytes(data[at : at + 8], "little"))
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mixed_2(int.from_bytes(data[at + 8 : at + 16], "little"))
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    h1 ^= _mixed_1(int.from_bytes(data[whole : whole + 8], "little")) ^ len(data)
    h2 ^= _mixed_2(int.from_bytes(data[whole + 8 :], "little")) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _finished(h1) + _finished(h2) & _MASK


def _mixed_1(block: int) -> int:
    return _rotated(block * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_2(block: int) -> int:
    return _rotated(block * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _finished(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
