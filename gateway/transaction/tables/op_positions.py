"""The position in the op queue from which records are still needed: the op offset of Apache RocketMQ.

An op record is needed while it names a half message at or above the oldest open half message. Positions are kept for
ranges of 4096 half messages, so the answer may be a little too early. The extra records only name half messages below
the half offset, which every reader skips.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

RANGE_BITS: Final = 12


class OpPositions:
    """The first op record that names a half message of each range.

    ``end`` is the offset after the newest known op record.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._answer_range = -1
        self._answer: int | None = None
        self.end = 0

    def note(self, half_offset: int, op_offset: int) -> None:
        """Note that the op record at ``op_offset`` names a half message."""
        number = half_offset >> RANGE_BITS
        if op_offset < self._first.get(number, op_offset + 1):
            self._first[number] = op_offset
            if self._answer is None or op_offset < self._answer:
                self._answer_range = -1
        if op_offset >= self.end:
            self.end = op_offset + 1

    def note_all(self, half_offsets: Iterable[int], op_offset: int) -> None:
        """Note that the op record at ``op_offset`` names these half messages."""
        last = -1
        for half_offset in half_offsets:
            number = half_offset >> RANGE_BITS
            if number != last:
                self.note(half_offset, op_offset)
                last = number

    def needed_from(self, base: int) -> int:
        """Return the offset of the first op record that may name a half message at or above ``base``."""
        number = base >> RANGE_BITS
        if number != self._answer_range:
            self._first = {key: first for key, first in self._first.items() if key >= number}
            self._answer = min(self._first.values(), default=None)
            self._answer_range = number
        return self.end if self._answer is None else self._answer
