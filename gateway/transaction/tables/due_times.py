"""The due times of half messages, in buckets of a tenth of a second that are never searched.

An entry is never removed early. The caller that takes an entry at its time checks whether the half message is still
open and still due. Most half messages are settled long before.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import heapq
from array import array
from typing import Final

BUCKET_MS: Final = 100


class DueTimes:
    """Half-queue offsets by due time, 8 bytes each."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []

    def add(self, offset: int, due_at_ms: int) -> None:
        """Add a half message. It comes out at ``due_at_ms`` or less than 100 ms later, and never early."""
        number = -(-due_at_ms // BUCKET_MS)
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = array("q", (offset,))
            heapq.heappush(self._order, number)
        else:
            bucket.append(offset)

    def take(self, now_ms: int) -> array[int] | None:
        """Take out the offsets of the earliest bucket whose time has come; None if there is no such bucket."""
        if not self._order or self._order[0] * BUCKET_MS > now_ms:
            return None
        return self._buckets.pop(heapq.heappop(self._order))

    @property
    def next_ms(self) -> int | None:
        """The time of the earliest bucket; None if nothing waits."""
        return self._order[0] * BUCKET_MS if self._order else None
