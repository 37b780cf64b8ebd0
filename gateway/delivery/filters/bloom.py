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

from gateway.delivery.filters.murmur3 import low_64_bits

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
