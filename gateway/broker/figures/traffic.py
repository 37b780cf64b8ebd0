"""Running totals of the messages that the broker took and gave, for the figures that tools ask for."""

from __future__ import annotations

from bisect import bisect_right

PUT_TIME_ENDS_MS = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
PUT_TIME_NAMES = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)
"""The names of the put times, which are upstream's because exporters look for them."""


class Traffic:
    """Counts since the start. A plain class: the data path adds to it."""

    __slots__ = (
        "_put_times",
        "found_pulls",
        "given_messages",
        "longest_put_ms",
        "longest_read_ms",
        "missed_pulls",
        "stored_messages",
    )

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
