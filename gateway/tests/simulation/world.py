"""The order of everything that happens: events in a heap, and time that passes only between two events."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol
from zlib import crc32

US_PER_S = 1_000_000
MAX_EVENTS = 200_000
"""The number of events after which a history is taken to run in a circle."""


class Violation(Exception):  # noqa: N818 (what the search is for)
    """A promise that was broken."""


class ProcessEnded(BaseException):
    """The end of a process in the middle of what it does; passes through every handler of the product."""


class Owner(Protocol):
    """The process that an event belongs to."""

    is_alive: bool

    @property
    def paused_until_us(self) -> int:
        """The time at which its machine goes on."""


class Event:
    """Something that happens later."""

    __slots__ = ("arguments", "at_us", "function", "is_active", "owner")

    def __init__(
        self, at_us: int, owner: Owner | None, function: Callable[..., object], arguments: tuple[Any, ...]
    ) -> None:
        self.at_us = at_us
        self.owner = owner
        self.function = function
        self.arguments = arguments
        self.is_active = True

    # -- as Twisted's IDelayedCall ----------------------------------------------------------------------------

    def active(self) -> bool:
        """Return whether it is still to come."""
        return self.is_active

    def cancel(self) -> None:
        """Let it not happen."""
        self.is_active = False

    def getTime(self) -> float:  # noqa: N802 (Twisted's name)
        """Return when it happens, in seconds."""
        return self.at_us / US_PER_S


class World:
    """Time, chance and order of one history.

    :param is_traced: whether to write down everything.
    :param kind: histories of another kind draw other numbers from the same seed.
    """

    def __init__(self, seed: int, *, is_traced: bool = False, kind: str = "replicas") -> None:
        self.random = Random(f"{kind} {seed}")
        self.now_us = 0
        self.trace: list[str] | None = [] if is_traced else None
        self.current: Any = None
        """The process whose event is being carried out."""
        self.found: Violation | None = None
        """A broken promise that was noticed where the product would have swallowed an exception."""
        self._heap: list[tuple[int, int, Event]] = []
        self._count = 0

    def tell(self, text: str) -> None:
        """Write a line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.now_us / US_PER_S:11.6f} {text}")

    def tell_bytes(self, text: str, data: bytes) -> None:
        """Write a line about some bytes."""
        if self.trace is not None:
            self.tell(f"{text} {len(data)} bytes {crc32(data):08x}")

    def break_promise(self, text: str) -> None:
        """Note a broken promise; the history ends after this event."""
        if self.found is None:
            self.tell(f"VIOLATION {text}")
            self.found = Violation(text)

    def later(self, delay_us: int, owner: Owner | None, function: Callable[..., object], *arguments: object) -> Event:
        """Let something happen after a while; nothing happens for an owner that has ended."""
        event = Event(self.now_us + max(delay_us, 0), owner, function, arguments)
        self._count += 1
        heappush(self._heap, (event.at_us, self._count, event))
        return event

    def run(self, duration_us: int) -> None:
        """Let time pass.

        :raises Violation: a promise was broken.
        """
        until_us = self.now_us + duration_us
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            at_us, _, event = heappop(heap)
            if not event.is_active:
                continue
            self.now_us = at_us
            owner = event.owner
            if owner is not None:
                if not owner.is_alive:
                    continue
                if owner.paused_until_us > at_us:
                    self._count += 1
                    heappush(heap, (owner.paused_until_us, self._count, event))
                    continue
            event.is_active = False
            self.carry_out(owner, event.function, *event.arguments)
            self.check()
            if self._count > MAX_EVENTS:
                raise Violation(f"more than {MAX_EVENTS} events: something runs in a circle")
        self.now_us = until_us

    def carry_out(self, owner: Owner | None, function: Callable[..., object], *arguments: object) -> None:
        """Do something now in the name of a process."""
        before, self.current = self.current, owner
        try:
            function(*arguments)
        except ProcessEnded:
            pass
        finally:
            self.current = before

    def check(self) -> None:
        """Go on.

        :raises Violation: a promise was broken.
        """
        if self.found is not None:
            raise self.found


class SimulatedReactor:
    """The reactor of one process: time and connections."""

    def __init__(self, world: World, owner: Any, network: Any) -> None:
        self._world = world
        self._owner = owner
        self._network = network

    def seconds(self) -> float:
        """Implement ``TimeSource``."""
        return self._world.now_us / US_PER_S

    def callLater(  # noqa: N802 (Twisted's name)
        self,
        delay: float,
        callable: Callable[..., object],  # noqa: A002 (Twisted's name)
        *arguments: object,
    ) -> Event:
        """Implement ``TimeSource``."""
        return self._world.later(round(delay * US_PER_S), self._owner, callable, *arguments)

    def listenTCP(self, port: int, factory: Any, backlog: int = 0, interface: str = "") -> Any:  # noqa: N802
        """Implement ``NetworkReactor``."""
        return self._network.listen(self._owner, port, factory)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> Any:  # noqa: N802
        """Implement ``NetworkReactor``."""
        return self._network.connect(self._owner, host, port, factory, timeout)
