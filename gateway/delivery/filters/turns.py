"""The turns of filters and looks: SQL92 expressions are compiled and evaluated for a while, then other work has a turn.

Peers choose an expression and the messages it is compared with, which can cost seconds. Pops that look into all queues
of a topic can cost as much, and so can many requests that wait for one message. So work is counted in steps. A turn of
the reactor has ``TURN_STEPS`` steps. A later request waits for a next turn, in a line that is fair to hosts,
connections and short expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.delivery.filters.record_filter import PropertyFilter, Work
from gateway.errors import RequestRefused
from gateway.fair_line import FairLine
from wire.codes import ResponseCode

TURN_STEPS = 60_000
"""The steps of all filters in one turn of the reactor: 12 ms at most.

A send goes through three turns until it is answered, so it may be delayed three times by this much.
"""
READ_STEPS = 60_000
"""The steps of one pull or pop, which is then answered with what it found and where to continue.

Ten comparisons with new values, for 1,600 messages, take as many steps.
"""
REQUEST_STEPS = 100
"""The steps of a request that waited, in addition to its filter's."""
COMPILE_STEPS = 15
"""The steps for each character of an expression that is compiled; about 5 µs for the costliest."""
MAX_WAITING = 10_000
"""The number of requests of one connection that wait for a turn; a connection may have as many held pulls."""


class CountedFilter(Protocol):
    """A filter that knows what it costs; ``Sql92Filter`` is one."""

    @property
    def matches(self) -> PropertyFilter: ...  # noqa: D102

    def steps(self, properties: Mapping[str, str]) -> int:
        """Return the most steps that ``matches`` takes for properties."""


class FilterTurns:
    """The steps left in a turn, and the requests that wait for the next turn. For the reactor's thread only.

    :param soon: runs a function at the end of the reactor's turn.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
        self._left = TURN_STEPS
        self._is_ordered = False
        self._waiting: FairLine[Callable[[], None]] = FairLine()

    @property
    def is_spent(self) -> bool:
        """True if this turn has no steps left."""
        return self._left <= 0

    @property
    def is_busy(self) -> bool:
        """True if a request has to wait for a turn: this turn has no steps left, or other requests wait already."""
        return self._left <= 0 or bool(self._waiting)

    def spend(self, steps: int) -> None:
        """Take steps from this turn; the next turn starts with new steps."""
        self._left -= steps
        if self._left <= 0:
            self._order()

    def spend_read(self, work: Work) -> None:
        """Take the steps that a read has used of its ``READ_STEPS``."""
        self.spend(READ_STEPS - work.left)

    def may_match(self, accepts: CountedFilter, properties: Mapping[str, str]) -> bool:
        """Return whether properties match; True also if no steps are left to find out."""
        if self._left <= 0:
            return True
        self.spend(accepts.steps(properties))
        return accepts.matches(properties)

    def later(self, owner: object, function: Callable[[], None], characters: int = 0) -> None:
        """Run a function in a later turn, when its owner has its turn.

        :param characters: the length of the expression that the function compiles or evaluates; its cost grows with the
            length.
        :raises RequestRefused: SYSTEM_BUSY: too many requests of this owner wait.
        """
        waiting = self._waiting.waiting(_host(owner), owner)
        if waiting >= MAX_WAITING:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"{waiting} filtered requests of this connection wait for their turn already; try again later",
            )
        self._waiting.put(_host(owner), owner, function, REQUEST_STEPS + COMPILE_STEPS * characters)
        self._order()

    def resume(self, owner: object, function: Callable[[], None]) -> None:
        """Run a function later, like ``later``, but never refuse: for requests that were let in and counted before."""
        self._waiting.put(_host(owner), owner, function, REQUEST_STEPS)
        self._order()

    def _order(self) -> None:
        if not self._is_ordered:
            self._is_ordered = True
            self._soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn with the waiting functions."""
        self._is_ordered = False
        self._left = TURN_STEPS
        try:
            while self._waiting and self._left > 0:
                self._left -= REQUEST_STEPS
                self._waiting.take()()
        finally:  # an error ends this turn, and nothing else
            if self._waiting:
                self._order()


def _host(owner: object) -> object:
    """Return the host of a connection; None for the broker itself."""
    remote = getattr(owner, "remote", None)  # its address and its port: the packed one has both
    return None if remote is None else remote[0]
