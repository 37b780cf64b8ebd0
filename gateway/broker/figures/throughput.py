"""Messages in and out per second and per day, as tools show them.

The figures come from running totals that are read every ten seconds; only what the figures need is kept. Windows and
texts are those of upstream's ``StoreStatsService`` and ``BrokerStats``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

SAMPLE_MS = 10_000
WINDOWS_MS = (10_000, 60_000, 600_000)
"""The windows of a rate's three figures: the last 10 s, 1 min and 10 min, in milliseconds."""
_KEPT = WINDOWS_MS[-1] // SAMPLE_MS + 1


class Totals(NamedTuple):
    """Counts since the process started."""

    puts: int
    """Messages stored."""
    gets: int
    """Messages given to consumers."""
    found_pulls: int
    """Pulls that found something."""
    missed_pulls: int
    """Pulls that found nothing."""
    timers_entered: int = 0
    """Timer messages that started to wait."""
    timers_delivered: int = 0
    """Timer messages delivered."""


class DayTotals(msgspec.Struct, frozen=True):
    """A total at the last two midnights and now."""

    yesterday_morning: int
    today_morning: int
    today_now: int


class Throughput:
    """Rates and day totals of a broker.

    :param totals: returns the running totals.
    :param day_of: returns the day to which a time in epoch milliseconds belongs; days change at the local midnight.
    """

    def __init__(self, totals: Callable[[], Totals], clock_ms: Callable[[], int], day_of: Callable[[int], int]) -> None:
        self._totals = totals
        self._clock_ms = clock_ms
        self._day_of = day_of
        now_ms, first = clock_ms(), totals()
        self._samples: deque[tuple[int, Totals]] = deque([(now_ms, first)], maxlen=_KEPT)
        self._day = day_of(now_ms)
        self._today_morning = first
        self._yesterday_morning = first

    def sample(self) -> None:
        """Take a sample of the totals; call this every ``SAMPLE_MS`` milliseconds."""
        now_ms, totals = self._clock_ms(), self._totals()
        day = self._day_of(now_ms)
        if day != self._day:
            self._day = day
            self._yesterday_morning, self._today_morning = self._today_morning, totals
        self._samples.append((now_ms, totals))

    def rates(self, of: Callable[[Totals], int]) -> str:
        """Return one rate over the three windows, for example ``"12.5 11.0 3.2"``."""
        now_ms, now = self._clock_ms(), of(self._totals())
        return " ".join(str(self._rate(of, now_ms, now, window_ms)) for window_ms in WINDOWS_MS)

    def rate(self, of: Callable[[Totals], int]) -> float:
        """Return one rate over the first window."""
        return self._rate(of, self._clock_ms(), of(self._totals()), WINDOWS_MS[0])

    def day(self, of: Callable[[Totals], int]) -> DayTotals:
        """Return one total at the last two midnights and now."""
        return DayTotals(of(self._yesterday_morning), of(self._today_morning), of(self._totals()))

    def _rate(self, of: Callable[[Totals], int], now_ms: int, now: int, window_ms: int) -> float:
        """Return the rate per second since the youngest sample that is at least a window old.

        If no sample is that old, the oldest sample counts.
        """
        since_ms, then = self._samples[0]
        for sample_ms, totals in self._samples:
            if now_ms - sample_ms < window_ms:
                break
            since_ms, then = sample_ms, totals
        elapsed_ms = now_ms - since_ms
        return round((now - of(then)) * 1000 / elapsed_ms, 2) if elapsed_ms > 0 else 0.0
