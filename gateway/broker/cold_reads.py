"""Reads that wait for the disk: some threads of the pool at most, and a bounded queue before them.

The pool also flushes and saves tables, so consumers that catch up must not have all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.in_thread import InThread
from wire.codes import ResponseCode

T = TypeVar("T")
Done = Callable[[Any], None]


class ColdReads:
    """Runs blocking reads, the oldest first. All methods belong to the reactor thread.

    :param threads: reads that run at once; :param limit: reads that wait for a thread.
    """

    def __init__(self, in_thread: InThread, *, threads: int, limit: int) -> None:
        self._in_thread = in_thread
        self._threads = threads
        self._limit = limit
        self._running = 0
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()

    @property
    def count(self) -> int:
        """Reads that run or wait."""
        return self._running + len(self._waiting)

    def read(self, work: Callable[[], Any], done: Done) -> None:
        """Run ``work`` in a thread, then ``done`` with its value or exception on the reactor thread.

        :raises RequestRefused: SYSTEM_BUSY: too many wait already; stock clients come again a little later.
        """
        if self._running < self._threads:
            self._start(work, done)
        elif len(self._waiting) < self._limit:
            self._waiting.append((work, done))
        else:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._waiting)} reads wait for the disk already (gateway.coldReadsLimit); try again later",
            )

    def result(self, work: Callable[[], T]) -> Awaitable[T]:
        """``read`` for coroutines: fires with the value of ``work`` or fails with its exception.

        :raises RequestRefused: as ``read``.
        """
        waiting: Deferred[T] = Deferred()

        def done(value: T | BaseException) -> None:
            if isinstance(value, BaseException):
                waiting.errback(value)
            else:
                waiting.callback(value)

        self.read(work, done)
        return waiting

    def _start(self, work: Callable[[], Any], done: Done) -> None:
        self._running += 1

        def ended(value: Any) -> None:
            self._running -= 1
            try:
                done(value)
            finally:
                if self._waiting and self._running < self._threads:
                    self._start(*self._waiting.popleft())

        self._in_thread(work, ended)
