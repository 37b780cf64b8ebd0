"""A deputy thread that runs the reactor while the reactor's own thread waits for the disk.

If a sync is handed to another thread and its end is reported back, two threads wake up. With few processors that takes
longer than the sync of a quick disk, so the reactor's thread may wait for the disk itself. If the disk is slow for
once, or does not answer at all, a deputy goes on with the reactor: it reads connections, runs timers and accepts calls
of other threads.

Only one thread at a time runs the reactor, and the reactor does not notice the change: its own thread waits meanwhile,
with nothing on its stack that the deputy's turns could disturb. Signals are the exception. Python handles signals only
in the main thread, so a signal that comes while the disk does not answer is handled when the disk answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Final, TypeVar

Value = TypeVar("Value")

THREAD_NAME: Final = "reactor-deputy"
LOOKED_AFTER_EVERY_S: Final = 0.005
"""Seconds between two looks of the deputy. A wait found by two looks in a row is long.

Therefore the reactor stands still for ten milliseconds at most.
"""


class Deputy:
    """Looks after the waits of one reactor.

    The first wait starts the deputy's thread, which sleeps while there are no waits.

    :param turn: runs one turn of the reactor in the calling thread; returns False if the reactor was stopped.
    :param wake: ends the reactor's wait for events; any thread may call it.
    :param rest: passes the time between two looks, in the deputy's thread.
    """

    def __init__(
        self,
        turn: Callable[[], bool],
        wake: Callable[[], None],
        rest: Callable[[], object] | None = None,
    ) -> None:
        self._turn = turn
        self._wake = wake
        self._rest = partial(Event().wait, LOOKED_AFTER_EVERY_S) if rest is None else rest
        self._waits = 0
        self._is_asleep = True
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._running = Lock()
        self._thread: Thread | None = None

    def wait_for(self, work: Callable[[], Value]) -> Value:
        """Call ``work``, and return or raise what ``work`` does.

        Call this only on the thread that runs the reactor, at the start of a turn.
        """
        self._waits += 1  # odd: one is going on
        if self._is_asleep:
            self._is_asleep = False
            self._bell.put(None)
            if self._thread is None:
                self._thread = Thread(target=self._look_after, name=THREAD_NAME, daemon=True)
                self._thread.start()
        try:
            return work()
        finally:
            self._waits += 1
            if not self._running.acquire(blocking=False):
                self._wake()
                self._running.acquire()
            self._running.release()

    def _look_after(self) -> None:
        while True:
            self._bell.get()
            looked_at = -1
            while (waits := self._waits) != looked_at or waits % 2:
                if waits == looked_at:
                    self._run_during(waits)
                looked_at = waits
                self._rest()
            self._is_asleep = True
            if self._waits != looked_at:  # it began before it could see that nobody looks
                self._bell.put(None)

    def _run_during(self, waits: int) -> None:
        with self._running:
            while self._waits == waits and self._turn():
                continue
