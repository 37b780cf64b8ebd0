"""The messages that are due next, in memory: 24 bytes each, sorted by the millisecond of their due time. Pure.

Messages of the same millisecond keep the order in which they were added.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wire.disk.timer_log import TimerKind

_UNIT = struct.Struct("=qiiq")


class NearTimer(NamedTuple):
    """One near message: the place of its record, the action (``TimerKind``), and the slot that counts the message."""

    commit_log_offset: int
    size: int
    kind: int
    slot: int


def is_rolled_marker(kind: int) -> bool:
    """Return whether an entry is a marker that is rolled.

    Such a marker takes a message of a later slot back, so it is stored again for that slot first.
    """
    return bool(kind & TimerKind.DELETE) and bool(kind & TimerKind.ROLL)


def pack(timer: NearTimer) -> bytes:
    """Return the bytes of one near message, as ``NearTimers.merge`` takes them."""
    return _UNIT.pack(*timer)


class NearTimers:
    """A queue of near messages by due time."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._buckets: dict[int, bytearray] = {}
        self._taken = 0
        """The number of bytes of the first bucket that were taken already."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[int, NearTimer]]:
        """Yield due times and messages, in order."""
        for due_ms in sorted(self._buckets):
            skipped = self._taken if due_ms == self._times[0] else 0
            for values in _UNIT.iter_unpack(memoryview(self._buckets[due_ms])[skipped:]):
                yield due_ms, NearTimer._make(values)

    def add(self, due_ms: int, timer: NearTimer) -> None:
        """Add one message."""
        self._bucket(due_ms).extend(_UNIT.pack(*timer))
        self._count += 1

    def merge(self, gathered: Mapping[int, bytes]) -> None:
        """Add many messages: for each due time the concatenated results of ``pack``."""
        for due_ms, units in gathered.items():
            self._bucket(due_ms).extend(units)
            self._count += len(units) // _UNIT.size

    def next_due_ms(self) -> int | None:
        """Return when the next message is due; None without messages."""
        return self._times[0] if self._times else None

    def take(self, now_ms: int, max_count: int, max_bytes: int) -> list[NearTimer]:
        """Remove and return the next due messages for delivery, at least one if any is due.

        After a rolled marker, return only rolled entries: the marker may take the other messages back.
        """
        taken: list[NearTimer] = []
        total, has_marker = 0, False
        while self._times and self._times[0] <= now_ms:
            bucket = self._buckets[self._times[0]]
            while self._taken < len(bucket):
                timer = NearTimer._make(_UNIT.unpack_from(bucket, self._taken))
                total += timer.size
                if taken and (len(taken) >= max_count or total > max_bytes):
                    return taken
                if has_marker and not timer.kind & TimerKind.ROLL:
                    return taken
                has_marker = has_marker or is_rolled_marker(timer.kind)
                taken.append(timer)
                self._taken += _UNIT.size
                self._count -= 1
            del self._buckets[heapq.heappop(self._times)]
            self._taken = 0
        return taken

    def _bucket(self, due_ms: int) -> bytearray:
        bucket = self._buckets.get(due_ms)
        if bucket is None:
            if self._taken and due_ms < self._times[0]:
                self._forget_taken()
            bucket = self._buckets[due_ms] = bytearray()
            heapq.heappush(self._times, due_ms)
        return bucket

    def _forget_taken(self) -> None:
        """Remove the taken bytes of the first bucket, before another bucket becomes the first one."""
        del self._buckets[self._times[0]][: self._taken]
        self._taken = 0
