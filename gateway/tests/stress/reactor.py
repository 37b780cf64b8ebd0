"""The threads of a broker without sockets: a reactor's thread whose turns are done by hand, and others beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue

from gateway.in_thread import InThread, result_of


class Reactor:
    """Results of threads come back to whoever calls ``turn``."""

    def __init__(self, threads: int) -> None:
        self._turns: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._log = ThreadPoolExecutor(1)
        self._pool = ThreadPoolExecutor(threads)
        self.soon = self._turns.put
        self.in_log_thread: InThread = partial(self._submit, self._log)
        self.in_thread: InThread = partial(self._submit, self._pool)

    def _submit(self, pool: ThreadPoolExecutor, work: Callable[[], object], done: Callable[[object], None]) -> None:
        pool.submit(self._run, work, done)

    def _run(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        self._turns.put(partial(done, result_of(work)))

    def turn(self, wait_seconds: float = 0.01) -> None:
        """Do what is there; wait a little when nothing is."""
        try:
            self._turns.get(timeout=wait_seconds)()
            while True:
                self._turns.get_nowait()()
        except Empty:
            return

    def run_until(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Turn until something holds; whether it came to that."""
        end = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > end:
                return False
            self.turn()
        return True

    def close(self) -> None:
        """End the threads."""
        self._log.shutdown()
        self._pool.shutdown()
