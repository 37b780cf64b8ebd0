"""JSON headers that equal an earlier header except for some values: recognised by comparing, not by parsing.

A producer's requests have about 350 bytes and differ in a queue, a time, a key and the opaque. The bytes between these
*spots* are compared, eight at a time. The value in a spot, a number or a word, is read. In compiled code this takes a
tenth of the time of a JSON parser. Interpreted code takes longer than the parser, so callers check ``IS_COMPILED``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from librt.strings import read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i64

MAX_WORD: Final = 255
"""The most characters of a word in a spot."""

BASE64: Final = -1
"""The ``digits`` of a spot with base64."""

_ZERO: Final[i64] = 48
_NINE: Final[i64] = 57
_UPPER_A: Final[i64] = 65
_UPPER_Z: Final[i64] = 90
_LOWER_A: Final[i64] = 97
_LOWER_Z: Final[i64] = 122
_PLUS: Final[i64] = 43
_SLASH: Final[i64] = 47
_EQUALS: Final[i64] = 61
_STRIDE: Final[i64] = 8


@dataclass(frozen=True, slots=True)
class Spot:
    """A place at which headers of a form differ.

    :param mark: the bytes before the value, which occur once in a header.
    :param digits: the most digits of a number, up to 18; 0 for a word of ASCII letters and digits, ``BASE64`` for a
        word of base64.
    """

    mark: bytes
    digits: int


class HeaderForm:
    """The form of a header, taken from a sample.

    :raises ValueError: a mark is missing or occurs twice, or the bytes after a mark are not a value.
    """

    def __init__(self, sample: bytes, spots: Sequence[Spot]) -> None:
        places = sorted((_place(sample, spot), number) for number, spot in enumerate(spots))
        self._sample = sample
        self._begins = vec[i64]()
        self._ends = vec[i64]()
        self._digits = vec[i64]()
        self._order = vec[i64]()
        self.found = vec[i64]()
        """The values of the header that was examined last, valid if the header matched: two for each spot, in the order
        of the spots. The two are a number and 0, or the start and the end of a word in the header."""
        for begin, number in places:
            self._begins = append(self._begins, begin)
            self._ends = append(self._ends, _value_end(sample, begin, spots[number].digits < 0))
            self._digits = append(self._digits, spots[number].digits)
            self._order = append(self._order, number)
            self.found = append(append(self.found, 0), 0)
        if not self.matches(sample):
            raise ValueError("what follows a mark is not a value")

    def matches(self, header: bytes) -> bool:
        """Return whether a header has this form; ``found`` then has the values in its spots."""
        sample = self._sample
        length: i64 = len(header)
        spots: i64 = len(self._begins)
        at: i64 = 0
        sample_at: i64 = 0
        number: i64 = 0
        while number < spots:
            count: i64 = self._begins[number] - sample_at
            if at + count >= length or not _alike(header, at, sample, sample_at, count):
                return False
            at += count
            begin: i64 = at
            digits: i64 = self._digits[number]
            place: i64 = 2 * self._order[number]
            if digits > 0:
                value: i64 = 0
                while at < length and at - begin <= digits and _ZERO <= i64(header[at]) <= _NINE:
                    value = 10 * value + i64(header[at]) - _ZERO
                    at += 1
                # A number that begins with a zero is read otherwise by some.
                if at == begin or at - begin > digits or (at - begin > 1 and i64(header[begin]) == _ZERO):
                    return False
                self.found[place] = value
            else:
                at = _value_end(header, at, digits < 0)
                if at == begin or at - begin > MAX_WORD:
                    return False
                self.found[place] = begin
                self.found[place + 1] = at
            sample_at = self._ends[number]
            number += 1
        rest: i64 = i64(len(sample)) - sample_at
        return at + rest == length and _alike(header, at, sample, sample_at, rest)

    def filled(self, values: Sequence[bytes]) -> bytes:
        """Return the sample with other values in its spots."""
        parts: list[bytes] = []
        sample_at = 0
        for number, begin in enumerate(self._begins):
            parts += (self._sample[sample_at:begin], values[self._order[number]])
            sample_at = self._ends[number]
        return b"".join((*parts, self._sample[sample_at:]))


def _place(sample: bytes, spot: Spot) -> int:
    if sample.count(spot.mark) != 1:
        raise ValueError(f"{spot.mark!r} is not there once")
    return sample.index(spot.mark) + len(spot.mark)


def _value_end(header: bytes, at: i64, is_base64: bool) -> i64:
    """Return the end of the ASCII letters and digits that start at ``at``; base64 also has ``+``, ``/`` and ``=``."""
    length: i64 = len(header)
    while at < length:
        unit = i64(header[at])
        is_more = is_base64 and unit in (_PLUS, _SLASH, _EQUALS)
        if not (is_more or _ZERO <= unit <= _NINE or _UPPER_A <= unit <= _UPPER_Z or _LOWER_A <= unit <= _LOWER_Z):
            break
        at += 1
    return at


def _alike(one: bytes, one_at: i64, other: bytes, other_at: i64, count: i64) -> bool:
    """Return whether ``count`` bytes are equal in both headers; both must have enough bytes left."""
    end: i64 = one_at + count
    while end - one_at >= _STRIDE:
        if read_i64_le(one, one_at) != read_i64_le(other, other_at):
            return False
        one_at += _STRIDE
        other_at += _STRIDE
    while one_at < end:
        if one[one_at] != other[other_at]:
            return False
        one_at += 1
        other_at += 1
    return True
