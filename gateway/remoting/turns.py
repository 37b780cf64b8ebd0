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

from gateway.errors import RequestRefused
from gateway.remoting.reactor import TimeSource
from wire.codes import ResponseCode

ENTRIES_PER_TURN = 1_000
"""Entries of a table that one piece of work looks at: about a millisecond, at most ten."""

MAX_WORKS = 8
"""Works that take turns, and the others wait for one of them to end; each may hold an answer of 16 MiB."""
MAX_WAITING = 10_000
"""Works that wait to be begun: 10,000 clients that ask for the members of their group in one moment."""

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]
"""Work in pieces, and its value at the end."""


class Turns:
    """The works of one server. Only the reactor's thread uses this class.

    Work is begun at once while few others are under way; one peer that sends hundreds of requests in one read does not
    get hundreds of pieces before everybody else.
    """

    def __init__(self, reactor: TimeSource) -> None:
        self._reactor = reactor
        self._works: deque[tuple[Work[Any], Deferred[Any]]] = deque()
        self._waiting: deque[tuple[Work[Any], Deferred[Any]]] = deque()
        self._scheduled = False

    @property
    def count(self) -> int:
        """Works that are not at their end."""
        return len(self._works) + len(self._waiting)

    def run(self, work: Work[T]) -> Deferred[T]:
        """Do the first piece now and the others in later turns; fires with the work's value or its exception.

        Work of a single piece is mostly done when this method returns.

        :raises RequestRefused: SYSTEM_BUSY: too many works wait.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, f"{MAX_WAITING} long answers are in the making; try again later"
            )
        done: Deferred[T] = Deferred()
        if self._waiting or len(self._works) >= MAX_WORKS:
            self._waiting.append((work, done))
        elif not self._is_over(work, done):
            self._works.append((work, done))
            self._schedule()
        return done

    def begin(self, work: Work[T]) -> Deferred[T]:
        """As ``run``, for works of which there are few at a time: never refused, and the first piece is done now."""
        done: Deferred[T] = Deferred()
        if not self._is_over(work, done):
            self._works.append((work, done))
            self._schedule()
        return done

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._waiting and len(self._works) < MAX_WORKS:
            self._works.appendleft(self._waiting.popleft())
        if self._works:
            work, done = self._works.popleft()
            if not self._is_over(work, done):
                self._works.append((work, done))
        if self._works or self._waiting:
            self._schedule()

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
