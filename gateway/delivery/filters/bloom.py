"""Bloom filters over consumer groups: a bit map says for which groups' expressions a message passes.

Each group and topic has a few bits; the bit map of a message has the bits of the groups that accept the message. A
group with a bit missing does not get the message; a group with all bits may get it. Sizes and bits are those of Apache
RocketMQ's ``BloomFilter``, which are on disk: never change. A bit n is the bit of value 2^(n mod 8) in byte n div 8
(``BitsArray``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

_HALF = 2**32


class BloomShape(msgspec.Struct, frozen=True):
    """The number of bits in a map, and in a group's part of a map.

    :param error_percent: the percentage of groups that seem to accept a message but do not, 1 … 99
        (``maxErrorRateOfBloomFilter``).
    :param groups: the number of groups expected for a topic, at least 1 (``expectConsumerNumUseFilter``).
    """

    error_percent: int = 20
    groups: int = 32

    @property
    def bits_of_group(self) -> int:
        """The number of bits of one group, some of which may be equal."""
        return math.ceil(math.log(self.error_percent / 100, 0.5))

    @property
    def bits(self) -> int:
        """The number of bits of a map, a multiple of 8."""
        least = math.ceil(-self.groups * math.log(self.error_percent / 100) / math.log(2) ** 2)
        return -(-least // 8) * 8

    def positions(self, group: str, topic: str) -> tuple[int, ...]:
        """Return the bits of a group's expression for a topic."""
        low = low_64_bits(f"{group}#{topic}".encode())
        first, step = _signed(low), _signed(low >> 32)
        found = []
        for number in range(1, self.bits_of_group + 1):
            value = _signed(first + number * step)
            found.append((value if value >= 0 else ~value) % self.bits)
        return tuple(found)


def bit_map(positions: Iterable[int], bits: int) -> bytes:
    """Return a map with these bits."""
    found = bytearray(bits // 8)
    for position in positions:
        found[position // 8] |= 1 << position % 8
    return bytes(found)


def _signed(value: int) -> int:
    """Return the lowest 32 bits as a signed number, as in Java."""
    value %= _HALF
    return value - _HALF if value >= _HALF // 2 else value


_MASK = 2**64 - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_BLOCK_BYTES = 16


def low_64_bits(data: bytes) -> int:
    """Return the first eight bytes of MurmurHash3 with seed 0, as an unsigned number whose lowest byte comes first.

    The hash is its 128-bit form for 64-bit machines, as far as Guava's ``murmur3_128().asLong()`` goes. The algorithm
    is Austin Appleby's and in the public domain. A text is hashed when a filter is registered, never for a message.
    """
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
