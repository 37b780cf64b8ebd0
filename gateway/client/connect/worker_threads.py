"""A few daemon threads that run blocking calls of the user, which are handed to the threads one by one.

``concurrent.futures.ThreadPoolExecutor`` is not used: the end of the interpreter waits for its threads, so a callback
that never returns would keep the process alive. A thread is started if there is work and no idle thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerThreads:
    """At most ``limit`` threads; the caller limits how many calls may wait for a thread.

    :param name: the name of the threads in a debugger.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._work: queue.SimpleQueue[tuple[Future[Any], Context, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0
        self._closed = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run ``call`` in one of the threads, with the context variables of the caller.

        :raises RuntimeError: after ``close``, or if Python starts no more threads because the program ends.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"{self._name} is closed")
            self._unfinished += 1
            start = self._threads < min(self._limit, self._unfinished)
            self._threads += start
            number = self._threads
        if start:
            self._start(number)
        self._work.put((future, copy_context(), call))
        return future

    def close(self) -> None:
        """Take no more calls; the threads end after all submitted calls are done. Does not wait."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._work.put(None)

    def _start(self, number: int) -> None:
        try:
            threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                self._unfinished -= 1
            raise

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, context, call = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(context.run(call))
                # Whatever the user's code raises belongs to who waits for it.
                except BaseException as error:  # noqa: BLE001
                    future.set_exception(error)
            with self._lock:
                self._unfinished -= 1
            del item, future, context, call
