"""Until when held requests wait: a wheel of ticks.

Most of them are answered long before, many thousands a second. Those leave the wheel at once: what stays in it until
its time is memory, and work for the garbage collection, for seconds.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from gateway.clock import Milliseconds


class Waits(Protocol):
    """One who waits; hashed by identity."""

    tick: int
    """For the wheel alone."""


W = TypeVar("W", bound=Waits)


class Deadlines(Generic[W]):
    """Those who wait, by the end of their time, in the order in which they came.

    :param tick_ms: how fine the deadlines are: who waits is told at most this much late.
    """

    def __init__(self, clock: Milliseconds, tick_ms: int) -> None:
        self._clock = clock
        self._tick_ms = tick_ms
        self._by_tick: dict[int, dict[W, None]] = {}
        self._next_tick = clock() // tick_ms

    def add(self, one: W, deadline_ms: int) -> None:
        """From now on it waits."""
        tick = one.tick = max(deadline_ms // self._tick_ms + 1, self._next_tick)
        self._by_tick.setdefault(tick, {})[one] = None

    def remove(self, one: W) -> None:
        """It waits no longer.

        :raises KeyError: it does not wait.
        """
        of_tick = self._by_tick[one.tick]
        del of_tick[one]
        if not of_tick:
            del self._by_tick[one.tick]

    def over(self) -> list[W]:
        """Some whose time is over, to be removed; none when that is all. To be asked every ``tick_ms``, until it is."""
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
        """The clock was set back: nobody waits longer for that."""
        self._next_tick -= ticks
        self._by_tick = {tick - ticks: of_tick for tick, of_tick in self._by_tick.items()}
        for tick, of_tick in self._by_tick.items():
            for one in of_tick:
                one.tick = tick
