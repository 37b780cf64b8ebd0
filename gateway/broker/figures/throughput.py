"""Messages in and out per second and per day, as tools show them.

Fed with running totals every ten seconds; keeps just what the figures need. Upstream: ``StoreStatsService``
and ``BrokerStats``, whose windows and texts these are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

SAMPLE_MS = 10_000
WINDOWS_MS = (10_000, 60_000, 600_000)
"""The three figures of a rate: the last 10 s, 1 min and 10 min."""
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
    """Timer messages that began to wait."""
    timers_delivered: int = 0
    """Timer messages delivered."""


class DayTotals(msgspec.Struct, frozen=True):
    """A total at the last two midnights and now."""

    yesterday_morning: int
    today_morning: int
    today_now: int


class Throughput:
    """Rates and day totals of a broker.

    :param totals: reads the running totals.
    :param day_of: the day a moment (epoch ms) belongs to; changes at the local midnight.
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
        """Take the totals; to be called every ``SAMPLE_MS``."""
        now_ms, totals = self._clock_ms(), self._totals()
        day = self._day_of(now_ms)
        if day != self._day:
            self._day = day
            self._yesterday_morning, self._today_morning = self._today_morning, totals
        self._samples.append((now_ms, totals))

    def rates(self, of: Callable[[Totals], int]) -> str:
        """One rate over the three windows: ``"12.5 11.0 3.2"``."""
        now_ms, now = self._clock_ms(), of(self._totals())
        return " ".join(str(self._rate(of, now_ms, now, window_ms)) for window_ms in WINDOWS_MS)

    def rate(self, of: Callable[[Totals], int]) -> float:
        """One rate over the first window alone."""
        return self._rate(of, self._clock_ms(), of(self._totals()), WINDOWS_MS[0])

    def day(self, of: Callable[[Totals], int]) -> DayTotals:
        """One total at the two midnights and now."""
        return DayTotals(of(self._yesterday_morning), of(self._today_morning), of(self._totals()))

    def _rate(self, of: Callable[[Totals], int], now_ms: int, now: int, window_ms: int) -> float:
        """Per second since the youngest sample that is at least a window old, or since the oldest."""
        since_ms, then = self._samples[0]
        for sample_ms, totals in self._samples:
            if now_ms - sample_ms < window_ms:
                break
            since_ms, then = sample_ms, totals
        elapsed_ms = now_ms - since_ms
        return round((now - of(then)) * 1000 / elapsed_ms, 2) if elapsed_ms > 0 else 0.0
