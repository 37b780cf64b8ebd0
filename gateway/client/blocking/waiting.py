"""How a thread of the user waits for another thread: so that a signal is neither lost nor does any harm.

The conditions, events and futures of the standard library do not allow for a signal whose handler raises, as that of
Ctrl-C does. A signal at the start of ``Condition.wait`` becomes "cannot release un-acquired lock". A signal at the
start of ``with condition`` leaves the condition locked for ever. ``Future`` and ``Event`` are made of conditions. A
lock without Python code has no such moments, so threads of the user wait for nothing else.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")
_ReentrantLock: Any = type(threading.RLock())

LONGEST_WAIT_S: Final = 0.25
"""Seconds after which the main thread looks for signals again.

Python does not notice a signal that arrives between its last look and the start of a wait before the wait is over.
"""


class Gate:
    """A lock that is closed, until another thread opens it; for one thread that waits.

    :param is_opened: whether it was opened, also when a thread has passed since.
    """

    __slots__ = ("_lock", "is_opened")

    def __init__(self) -> None:
        self.is_opened = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let the waiting thread pass once.

        :raises RuntimeError: the gate is open.
        """
        self.is_opened = True
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the gate is open, and close it again.

        :param timeout: seconds; None: as long as it takes.
        :returns: whether it was open in time.
        """
        longest = LONGEST_WAIT_S if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
        if timeout is None:
            while not self._lock.acquire(timeout=longest):
                pass
            return True
        ends_at = time.monotonic() + timeout
        while not self._lock.acquire(timeout=min(max(ends_at - time.monotonic(), 0.0), longest)):
            if time.monotonic() >= ends_at:
                return False
        return True


def pause(seconds: float | None) -> None:
    """Let time pass.

    :param seconds: how long; None: until a signal's handler raises.
    """
    Gate().wait(seconds)


def start(thread: threading.Thread) -> None:
    """Start a thread.

    :raises RuntimeError: no thread can be had.
    """
    try:
        thread.start()
    except RuntimeError as error:
        # ``start`` waits for an event. What the handler of a signal raises there becomes an error about a lock.
        if error.__context__ is None or "lock" not in str(error):
            raise
        raise error.__context__ from None


class Condition(_ReentrantLock):  # type: ignore[misc]
    """A condition with a reentrant lock: ``with`` enters and leaves it without a line of Python."""

    def __init__(self) -> None:
        super().__init__()
        self._gates: deque[Gate] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        """Let the lock go, until it is notified or time is up. Call it with the lock.

        :param timeout: seconds; None: as long as it takes.
        :returns: whether it was notified.
        """
        gate, held, is_notified = Gate(), None, False
        try:
            try:
                self._gates.append(gate)
                held = self._release_save()
                is_notified = gate.wait(timeout)
            finally:
                self._retake(held)
        finally:
            self._retake(held)  # a signal may have interrupted the line above
            if gate in self._gates:
                self._gates.remove(gate)
            elif gate.is_opened and not is_notified:
                self.notify()  # another thread, since a signal interrupted this one
        return is_notified

    def _retake(self, held: object) -> None:
        if not self._is_owned():
            self._acquire_restore(held or (1, threading.get_ident()))

    def wait_for(self, is_so: Callable[[], bool], timeout: float) -> bool:
        """Wait until something is so. Call it with the lock.

        :param timeout: seconds.
        :returns: whether it is so.
        """
        ends_at = time.monotonic() + timeout
        while not is_so():
            left = ends_at - time.monotonic()
            if left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self) -> None:
        """Wake one thread that waits. Call it with the lock."""
        if self._gates:
            self._gates.popleft().open()

    def notify_all(self) -> None:
        """Wake the threads that wait. Call it with the lock."""
        while self._gates:
            self.notify()


class ThreadFuture(Future[T]):
    """A future for a thread that signals may interrupt while it waits."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = Condition()
