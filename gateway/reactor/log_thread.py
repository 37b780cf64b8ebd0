"""The threads for blocking work, above all the one that writes and syncs the commit log.

Twisted's thread pool would do, but costs two more hand-overs of a lock for each batch. Only one batch is in flight at a
time, so one thread with a queue is enough.

If processors are few and the disk is quick, the reactor's thread syncs itself: see ``gateway.reactor.deputy``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any, Final, TypeVar

from twisted.internet.interfaces import IReactorFromThreads

from gateway.in_thread import Failed, InThread

T = TypeVar("T")

QUICK_S: Final = 0.001
"""Seconds that a sync takes at most on a quick disk.

Connections may wait for an expected call as long as this in any case (``EXPECTED_WITHIN_S``).
"""
LONGEST_S: Final = 4 * QUICK_S
"""Seconds that a longer sync counts as: even after a disk that hung for a minute, about thirty syncs prove it quick."""
WEIGHT: Final = 1 / 16


class QuickDisk:
    """Remembers how long syncs took, mainly the last sixteen. A disk is not quick until its syncs have proved it."""

    def __init__(self) -> None:
        self._mean_s = LONGEST_S

    def took(self, seconds: float) -> None:
        """Note the seconds that a sync took."""
        self._mean_s += (min(seconds, LONGEST_S) - self._mean_s) * WEIGHT

    @property
    def is_quick(self) -> bool:
        """True if the reactor's thread may wait for the next sync."""
        return self._mean_s <= QUICK_S


Outcome = Callable[[Any], None]

FEW_PROCESSORS: Final = 2
"""The largest number of processors on which the reactor's thread may sync itself.

With so few processors, clients and a broker that hands every sync to a thread keep each other waiting. With more
processors the reactor has better things to do during a sync.
"""


def has_few_processors() -> bool:
    """Return whether this process may run on ``FEW_PROCESSORS`` processors at most; other programs may share them."""
    return len(os.sched_getaffinity(0)) <= FEW_PROCESSORS


class LogThread:
    """Runs blocking functions one after the other and reports on the reactor's thread.

    :param carry_out: calls an outcome with a value, on the reactor's thread, and writes out the answers made there.
    :param expect: called with True when an outcome is awaited, and with False when the outcome is there; see
        ``QuickReactor.expect_call``.
    :param wait_for: lets the reactor's thread do work and call its outcome, see ``QuickReactor.wait_for``; with None
        the reactor never waits.
    :param seconds: a clock that measures how quick the disk is.
    """

    def __init__(
        self,
        reactor: IReactorFromThreads,
        carry_out: Callable[[Outcome, object], None],
        expect: Callable[[bool], None] | None = None,
        wait_for: Callable[[Callable[[], object], Outcome], None] | None = None,
        seconds: Callable[[], float] = perf_counter,
    ) -> None:
        self._reactor = reactor
        self._expect = expect
        self._wait_for = wait_for
        self._seconds = seconds
        self._carry_out = carry_out
        self._disk = QuickDisk()
        self._unreported = 0
        self._at_work = Lock()
        self._queue: SimpleQueue[tuple[Callable[[], object], Outcome] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="commit-log", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after all queued work; blocks until then."""
        self._queue.put(None)
        self._thread.join()

    def submit(self, work: Callable[[], object], outcome: Outcome) -> None:
        """Run ``work`` in the thread, then call ``outcome`` with its value, or ``Failed``, on the reactor's thread."""
        self._unreported += 1
        if self._expect is not None:
            self._expect(True)
        self._queue.put((work, outcome))

    def sync(self, work: Callable[[], object], outcome: Outcome) -> None:
        """Run ``work``, which waits for the disk and does little else, then ``outcome``, as ``submit`` does.

        ``work`` runs in the reactor's thread if that is quicker and no earlier work is still under way.
        """

        def timed() -> object:
            began_s = self._seconds()
            try:
                return work()
            finally:
                self._disk.took(self._seconds() - began_s)

        if self._wait_for is None or self._unreported or not self._disk.is_quick:
            self.submit(timed, outcome)
            return
        self._unreported += 1
        self._wait_for(lambda: self._value_of(timed), lambda value: self._report(outcome, value))

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            work, outcome = task
            value = self._value_of(work)
            # What it holds, a whole batch, would be freed here while the next one waits to be synced.
            del task, work
            self._reactor.callFromThread(self._report, outcome, value)

    def _value_of(self, work: Callable[[], object]) -> object:
        with self._at_work:
            try:
                return work()
            except BaseException as error:  # noqa: BLE001 - handed over whole to the reactor thread
                return Failed(error)

    def _report(self, outcome: Outcome, value: object) -> None:
        self._unreported -= 1
        if self._expect is not None:
            self._expect(False)
        self._carry_out(outcome, value)


def in_thread_pool(reactor: Any, carry_out: Callable[[Callable[[Any], None], object], None]) -> InThread:
    """Return an ``InThread`` on the reactor's pool.

    :param carry_out: calls ``done`` with a value, and writes out the answers that were made there.
    """

    def run(work: Callable[[], T], done: Callable[[T | Failed], None]) -> None:
        value: T | Failed
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - handed over whole to the reactor thread
            value = Failed(error)
        reactor.callFromThread(carry_out, done, value)

    def in_thread(work: Callable[[], T], done: Callable[[T | Failed], None]) -> None:
        reactor.callInThread(run, work, done)

    return in_thread
