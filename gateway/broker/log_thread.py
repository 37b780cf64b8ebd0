"""The one thread that writes and syncs the commit log, so that the reactor never waits for a disk.

Twisted's thread pool would do, but costs two lock hand-overs more for each batch; with one batch in flight at
a time a thread of its own and a queue are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

from twisted.internet.interfaces import IReactorFromThreads

Outcome = Callable[[Any], None]


class LogThread:
    """Runs blocking functions one after the other and reports on the reactor thread.

    :param carry_out: calls, on the reactor thread, an outcome with a value, and writes out the answers it made.
    :param expect: told that an outcome is awaited, and that it is there; see ``QuickEpollReactor.expect_call``.
    """

    def __init__(
        self,
        reactor: IReactorFromThreads,
        carry_out: Callable[[Outcome, object], None],
        expect: Callable[[bool], None] | None = None,
    ) -> None:
        self._reactor = reactor
        self._expect = expect
        self._carry_out = carry_out
        self._queue: SimpleQueue[tuple[Callable[[], object], Outcome] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="commit-log", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is queued; blocks until then."""
        self._queue.put(None)
        self._thread.join()

    def submit(self, work: Callable[[], object], outcome: Outcome) -> None:
        """Run ``work`` in the thread, then ``outcome`` with its value or exception on the reactor thread."""
        if self._expect is not None:
            self._expect(True)
        self._queue.put((work, outcome))

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            work, outcome = task
            value: object
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - handed over whole to the reactor thread
                value = error
            # What it holds, a whole batch, would be freed here while the next one waits to be synced.
            del task, work
            self._reactor.callFromThread(self._report, outcome, value)

    def _report(self, outcome: Outcome, value: object) -> None:
        if self._expect is not None:
            self._expect(False)
        self._carry_out(outcome, value)
