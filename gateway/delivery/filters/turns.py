"""Turns of filters and looks: SQL92 expressions are compiled and evaluated for a while, then everybody has a turn.

An expression and the messages that it is compared with are chosen by peers, and together they can cost seconds; so can
looks of pops into all queues of a topic, and the many who wait for one message. So work is counted in steps. A turn of
the reactor has ``TURN_STEPS`` of them; who comes later waits for a next turn in a line that is fair to hosts,
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
"""Steps of all filters in one turn of the reactor: 12 ms at most. A send goes through three turns until it is answered,
so it is this much later three times."""
READ_STEPS = 60_000
"""Steps of one pull or pop, which is then answered with what it found and where to go on. Ten comparisons with values
that were not seen before, of 1,600 messages, take as many."""
REQUEST_STEPS = 100
"""Steps of a request that waited, beside what its filter costs."""
COMPILE_STEPS = 15
"""Steps for each character of an expression that is compiled; about 5 µs for the costliest."""
MAX_WAITING = 10_000
"""Requests of one connection that wait for a turn, as many as it may have pulls held."""


class CountedFilter(Protocol):
    """A filter that knows what it costs; ``Sql92Filter`` is one."""

    @property
    def matches(self) -> PropertyFilter: ...  # noqa: D102

    def steps(self, properties: Mapping[str, str]) -> int:
        """Return the most steps that ``matches`` takes for properties."""


class FilterTurns:
    """The steps that are left of a turn, and who waits for the next one. All methods belong to the reactor's thread.

    :param soon: runs a function at the end of the reactor's turn.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
        self._left = TURN_STEPS
        self._is_ordered = False
        self._waiting: FairLine[Callable[[], None]] = FairLine()

    @property
    def is_spent(self) -> bool:
        """Whether this turn has no steps left."""
        return self._left <= 0

    @property
    def is_busy(self) -> bool:
        """Whether a request has to wait for a turn: none is left of this one, or others wait already."""
        return self._left <= 0 or bool(self._waiting)

    def spend(self, steps: int) -> None:
        """Take steps from this turn; those of the next are there when it begins."""
        self._left -= steps
        if self._left <= 0:
            self._order()

    def spend_read(self, work: Work) -> None:
        """Take what a read has used of its ``READ_STEPS``."""
        self.spend(READ_STEPS - work.left)

    def may_match(self, accepts: CountedFilter, properties: Mapping[str, str]) -> bool:
        """Whether properties match, or might because nobody has steps left to find out."""
        if self._left <= 0:
            return True
        self.spend(accepts.steps(properties))
        return accepts.matches(properties)

    def later(self, owner: object, function: Callable[[], None], characters: int = 0) -> None:
        """Run a function in a later turn, when its owner's turn has come.

        :param characters: those of the expression that it compiles or evaluates; its cost grows with them.
        :raises RequestRefused: SYSTEM_BUSY: too many of this owner wait.
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
        """As ``later`` for what was let in before and is counted elsewhere: never refused."""
        self._waiting.put(_host(owner), owner, function, REQUEST_STEPS)
        self._order()

    def _order(self) -> None:
        if not self._is_ordered:
            self._is_ordered = True
            self._soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn: who waits comes first."""
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
