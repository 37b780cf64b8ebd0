"""The deadlines of held requests: a wheel of ticks; and the pace at which requests of closed connections are dropped.

Most held requests are answered long before their deadline, many thousands a second. Such requests leave the wheel at
once. If such requests stayed until their deadline, they would cost memory and garbage collection for seconds.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

from gateway.clock import Milliseconds

LOOK_MS: Final = 5_000
"""The milliseconds between two searches for held requests of closed connections, as in upstream."""


class LookPace:
    """Counts ticks until the next search for requests of closed connections."""

    def __init__(self, tick_ms: int) -> None:
        self._ticks = LOOK_MS // tick_ms
        self._left = self._ticks

    def tick(self) -> bool:
        """Count a tick; return whether to search now."""
        self._left -= 1
        if self._left:
            return False
        self._left = self._ticks
        return True


class Waits(Protocol):
    """A waiting item; hashed by identity."""

    tick: int
    """The item's tick, for the wheel alone."""


W = TypeVar("W", bound=Waits)


class Deadlines(Generic[W]):
    """The waiting items by deadline, in the order in which they came.

    :param tick_ms: how fine the deadlines are: an item is reported late by at most this much.
    """

    def __init__(self, clock: Milliseconds, tick_ms: int) -> None:
        self._clock = clock
        self._tick_ms = tick_ms
        self._by_tick: dict[int, dict[W, None]] = {}
        self._next_tick = clock() // tick_ms

    def add(self, one: W, deadline_ms: int) -> None:
        """Let an item wait until its deadline."""
        tick = one.tick = max(deadline_ms // self._tick_ms + 1, self._next_tick)
        self._by_tick.setdefault(tick, {})[one] = None

    def remove(self, one: W) -> None:
        """Remove an item, which waits no longer.

        :raises KeyError: the item does not wait.
        """
        of_tick = self._by_tick[one.tick]
        del of_tick[one]
        if not of_tick:
            del self._by_tick[one.tick]

    def over(self) -> list[W]:
        """Return some items whose time is over, for the caller to remove; an empty list if there are no more.

        Call this every ``tick_ms``, each time until the list is empty.
        """
        now_tick = self._clock() // self._tick_ms
        if now_tick < self._next_tick - 1:
            self._set_back(self._next_tick - 1 - now_tick)
        while self._next_tick <= now_tick:
            of_tick = self._by_tick.get(self._next_tick)
            self._next_tick += 1
            if of_tick:
                return list(of_tick)
        return []

    def _set_back(self, ticks: int) -> None:
        """Move every tick back, because the clock was set back: no item waits longer for that reason."""
        self._next_tick -= ticks
        self._by_tick = {tick - ticks: of_tick for tick, of_tick in self._by_tick.items()}
        for tick, of_tick in self._by_tick.items():
            for one in of_tick:
                one.tick = tick
