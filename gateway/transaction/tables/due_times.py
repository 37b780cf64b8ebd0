"""Which half messages become due when: buckets of a tenth of a second, none of them ever searched.

An entry is never removed early. Whoever takes it out when its time comes looks whether the half message is
still open and still due then; most are settled long before.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import heapq
from array import array
from typing import Final

BUCKET_MS: Final = 100


class DueTimes:
    """Half-queue offsets by due time, 8 bytes each."""

    __slots__ = ("_buckets", "_order")

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []

    def add(self, offset: int, due_at_ms: int) -> None:
        """Remember a half message; it comes out at ``due_at_ms`` or less than a bucket later, never early."""
        number = -(-due_at_ms // BUCKET_MS)
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = array("q", (offset,))
            heapq.heappush(self._order, number)
        else:
            bucket.append(offset)

    def take(self, now_ms: int) -> array[int] | None:
        """Take out the offsets of the earliest bucket whose time has come; None when there is none."""
        if not self._order or self._order[0] * BUCKET_MS > now_ms:
            return None
        return self._buckets.pop(heapq.heappop(self._order))

    @property
    def next_ms(self) -> int | None:
        """When the earliest bucket's time comes; None when nothing waits."""
        return self._order[0] * BUCKET_MS if self._order else None
