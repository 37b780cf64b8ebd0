"""Where one hash stands many times in a row in a key index file, as that of a tag does in the entries of one batch."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator

REPEATED = 64
"""Entries with one hash in a row that are worth looking at together."""
MOST_HASHES = 8
"""Those that are looked for."""


def hash_runs(hashes: array[int]) -> list[tuple[int, int]]:
    """Stretches [start, end) of one hash each, rising; not all there are, but none shorter than ``REPEATED``."""
    sample = range(0, len(hashes) - REPEATED + 1, REPEATED)
    found: list[tuple[int, int]] = []
    for value, _ in Counter(hashes[at] for at in sample if hashes[at] == hashes[at + 1]).most_common(MOST_HASHES):
        found += _runs_of(hashes, value, sample)
    return sorted(found)


def _runs_of(hashes: array[int], value: int, sample: range) -> Iterator[tuple[int, int]]:
    block, packed, size = (array("i", [value]) * REPEATED).tobytes(), hashes.tobytes(), hashes.itemsize
    end = 0
    for at in sample:
        if at < end or hashes[at] != value or packed[at * size : (at + REPEATED) * size] != block:
            continue
        start, low, end = at, end, at + REPEATED
        while start > low and hashes[start - 1] == value:
            start -= 1
        while packed[end * size : (end + REPEATED) * size] == block:
            end += REPEATED
        while end < len(hashes) and hashes[end] == value:
            end += 1
        yield start, end
