"""Messages in and out: running totals, and the rates per second and per day that tools show.

The figures come from running totals that are read every ten seconds; only what the figures need is kept. Windows and
texts are those of upstream's ``StoreStatsService`` and ``BrokerStats``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

PUT_TIME_ENDS_MS = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
PUT_TIME_NAMES = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)
"""The names of the put times, which are upstream's because exporters look for them."""


class Traffic:
    """Counts since the start, of messages that the broker took and gave."""

    def __init__(self) -> None:
        self.stored_messages = 0
        self.given_messages = 0
        self.found_pulls = 0
        self.missed_pulls = 0
        self.longest_put_ms = 0
        self.longest_read_ms = 0
        self._put_times = [0] * len(PUT_TIME_NAMES)

    def stored(self, messages: int, waited_ms: int) -> None:
        """Count the messages of one batch.

        :param waited_ms: milliseconds that the first message waited until it was stored.
        """
        self.stored_messages += messages
        self._put_times[bisect_right(PUT_TIME_ENDS_MS, waited_ms)] += messages
        if waited_ms > self.longest_put_ms:
            self.longest_put_ms = waited_ms

    def read(self, waited_ms: int) -> None:
        """Note how many milliseconds a read of the disk took."""
        self.longest_read_ms = max(self.longest_read_ms, waited_ms)

    def put_times_text(self) -> str:
        """Return the put times as text, for example ``"[<=0ms]:12 [0~10ms]:3 …"``."""
        return " ".join(f"[{name}]:{count}" for name, count in zip(PUT_TIME_NAMES, self._put_times, strict=True))


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
        """Return the rate of one of the totals in each of the three windows, for example ``"12.5 11.0 3.2"``."""
        now_ms, now = self._clock_ms(), of(self._totals())
        return " ".join(str(self._rate(of, now_ms, now, window_ms)) for window_ms in WINDOWS_MS)

    def rate(self, of: Callable[[Totals], int]) -> float:
        """Return the rate of one of the totals in the first window."""
        return self._rate(of, self._clock_ms(), of(self._totals()), WINDOWS_MS[0])

    def day(self, of: Callable[[Totals], int]) -> DayTotals:
        """Return the values that one of the totals had at the last two midnights, and has now."""
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
