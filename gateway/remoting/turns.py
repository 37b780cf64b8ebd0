"""Long work a piece at a time, so that other requests are answered between two pieces.

Work is a generator that yields after a bounded number of entries. All works of one server share its turns: in each turn
of the reactor one piece of one work is done, however many works there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.remoting.reactor import TimeSource

ENTRIES_PER_TURN = 1_000
"""Entries of a table that one piece of work looks at: about a millisecond, at most ten."""

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]
"""Work in pieces, and its value at the end."""


class Turns:
    """The works of one server. Only the reactor's thread uses this class."""

    def __init__(self, reactor: TimeSource) -> None:
        self._reactor = reactor
        self._works: deque[tuple[Work[Any], Deferred[Any]]] = deque()

    @property
    def count(self) -> int:
        """Works that are not at their end."""
        return len(self._works)

    def run(self, work: Work[T]) -> Deferred[T]:
        """Do the first piece now and the others in later turns; fires with the work's value or its exception.

        Work of a single piece is done when this method returns.
        """
        done: Deferred[T] = Deferred()
        if not self._is_over(work, done):
            self._works.append((work, done))
            if len(self._works) == 1:
                self._reactor.callLater(0, self._next_piece)
        return done

    def _next_piece(self) -> None:
        work, done = self._works[0]
        is_over = self._is_over(work, done)
        self._works.popleft()
        if not is_over:
            self._works.append((work, done))
        if self._works:
            self._reactor.callLater(0, self._next_piece)

    def _is_over(self, work: Work[T], done: Deferred[T]) -> bool:
        try:
            next(work)
        except StopIteration as end:
            done.callback(end.value)
        except Exception:  # noqa: BLE001 - whoever waits for the work gets its exception
            done.errback(Failure())  # type: ignore[no-untyped-call]
        else:
            return False
        return True


def finish(work: Work[T]) -> T:
    """Do all pieces at once and return the work's value: for programs without a reactor."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
