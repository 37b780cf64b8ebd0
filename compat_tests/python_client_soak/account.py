"""The fate of numbered messages for a number of readers; pure, and of fixed size.

Only the latest messages are remembered: an older one is judged when its place is needed, long after it should have
arrived everywhere.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

REMEMBERED = 65_536
_MOST_COPIES = 250


class Fate(IntEnum):
    """The producer's knowledge of a message."""

    NONE = 0
    UNCERTAIN = 1
    """Its send failed, or is under way: it may arrive, and need not."""
    WANTED = 2
    """Acknowledged, or committed: every reader gets it."""
    UNWANTED = 3
    """Rolled back: nobody gets it."""


class Account:
    """One stream of messages and everyone who reads it; used by many threads.

    :param remembered: how many messages are followed at once.
    """

    def __init__(self, name: str, readers: Sequence[str], remembered: int = REMEMBERED) -> None:
        self.name = name
        self.sent = 0
        self.failed = 0
        self.received: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.doubled: Counter[str] = Counter()
        self.flipped: Counter[str] = Counter()
        self._fates = bytearray(remembered)
        self._copies = {reader: bytearray(remembered) for reader in readers}
        self._next = 0
        self._lock = threading.Lock()

    def begin(self) -> int:
        """The number of the next message."""
        with self._lock:
            number = self._next
            self._next += 1
            self._judge(number % len(self._fates))
            self._fates[number % len(self._fates)] = Fate.UNCERTAIN
            return number

    def settle(self, number: int, fate: Fate) -> None:
        """Note the outcome of a send; UNCERTAIN: the send failed."""
        with self._lock:
            self._fates[number % len(self._fates)] = fate
            if fate is Fate.UNCERTAIN:
                self.failed += 1
            else:
                self.sent += 1

    def receive(self, reader: str, number: int) -> None:
        """A reader got a message."""
        with self._lock:
            self.received[reader] += 1
            copies = self._copies[reader]
            place = number % len(copies)
            if number < self._next - len(copies):
                self.doubled[reader] += 1  # judged already, so it was there or is counted as lost
            elif copies[place] < _MOST_COPIES:
                copies[place] += 1

    @property
    def readers(self) -> tuple[str, ...]:
        """Return the readers that are counted."""
        return tuple(self._copies)

    def forget(self, reader: str) -> None:
        """Do not wait for a reader that cannot read."""
        with self._lock:
            del self._copies[reader]

    @property
    def unread(self) -> int:
        """Messages that some reader still lacks."""
        with self._lock:
            wanted = [place for place, fate in enumerate(self._fates) if fate == Fate.WANTED]
            return sum(any(not copies[place] for copies in self._copies.values()) for place in wanted)

    def close(self) -> None:
        """Judge everything that is still remembered."""
        with self._lock:
            for place in range(len(self._fates)):
                self._judge(place)

    @property
    def is_clean(self) -> bool:
        """Nothing is lost, and nothing arrived that was rolled back."""
        return not (self.lost.total() or self.flipped.total())

    def _judge(self, place: int) -> None:
        fate = self._fates[place]
        for reader, copies in self._copies.items():
            if fate == Fate.WANTED and not copies[place]:
                self.lost[reader] += 1
            if fate == Fate.UNWANTED and copies[place]:
                self.flipped[reader] += 1
            if copies[place] > 1:
                self.doubled[reader] += copies[place] - 1
            copies[place] = 0
        self._fates[place] = Fate.NONE
