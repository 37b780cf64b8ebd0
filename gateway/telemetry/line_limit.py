"""A limit of the lines that one place in the code may write: a burst, then one line now and then with a count.

The count says how many lines were left out. Whatever a peer repeats, the log grows by a bounded number of lines an
hour.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from gateway.clock import Milliseconds

BURST_LINES = 20
"""The number of lines that a place may write without a pause."""
LINE_INTERVAL_MS = 10_000
"""Milliseconds until a place that has written its burst may write one more line."""
MAX_PLACES = 2_000
"""The number of places that have a count of their own; further places share one count. The gateway has about 200."""
OTHER_PLACES = "other places"


@dataclass(slots=True)
class _Place:
    lines: int
    since_ms: int
    left_out: int = 0


class LineLimit:
    """Counts the lines of each place; not thread-safe.

    :param clock_ms: milliseconds of any clock; if the clock is set back, every place may write its burst again.
    """

    def __init__(self, clock_ms: Milliseconds) -> None:
        self._clock_ms = clock_ms
        self._places: dict[Hashable, _Place] = {}

    def take(self, place: Hashable) -> int | None:
        """Return how many lines of the place were left out since its last one, or None if this one is left out."""
        now_ms = self._clock_ms()
        known = self._places.get(place)
        if known is None:
            if len(self._places) >= MAX_PLACES and place != OTHER_PLACES:
                return self.take(OTHER_PLACES)
            known = self._places[place] = _Place(BURST_LINES, now_ms)
        _refill(known, now_ms)
        if known.lines == 0:
            known.left_out += 1
            return None
        known.lines -= 1
        left_out, known.left_out = known.left_out, 0
        return left_out

    def untold(self, *, at_end: bool = False) -> Iterator[tuple[Hashable, int]]:
        """Yield each place that left out lines, may write again and has not, with the number of those lines.

        :param at_end: yield all places that left out lines, because nothing more will be written.
        """
        now_ms = self._clock_ms()
        for place, known in list(self._places.items()):
            _refill(known, now_ms)
            if known.left_out and (known.lines or at_end):
                known.lines = max(0, known.lines - 1)
                left_out, known.left_out = known.left_out, 0
                yield place, left_out


def _refill(place: _Place, now_ms: int) -> None:
    if now_ms < place.since_ms:
        place.lines, place.since_ms = BURST_LINES, now_ms
        return
    more = (now_ms - place.since_ms) // LINE_INTERVAL_MS
    if more:
        place.lines = min(BURST_LINES, place.lines + more)
        place.since_ms += more * LINE_INTERVAL_MS
