"""Locks, conditions and futures with which a user's thread waits: no signal is lost, and no signal does harm.

The standard library's conditions, events and futures do not allow a signal whose handler raises, such as the handler
of Ctrl-C. A signal at the start of ``Condition.wait`` becomes "cannot release un-acquired lock". A signal at the
start of ``with condition`` leaves the condition locked for ever. ``Future`` and ``Event`` are made of conditions. From
Python 3.14 on, ``with lock`` has such a moment as well. So threads of the user wait only for what is declared here,
and for ``gateway.client.lock``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from gateway.client.lock import Lock

T = TypeVar("T")

LONGEST_WAIT_S: Final = 0.25
"""The seconds after which the main thread looks for signals again.

If a signal arrives between Python's last look and the start of a wait, Python notices the signal only after the wait.
"""


class Gate:
    """A lock that is closed until another thread opens it; for one waiting thread.

    :param is_opened: whether the gate was ever opened; stays True after a thread has passed.
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
        """Wait until the gate is open, and close the gate again.

        :param timeout: seconds; None: without limit.
        :returns: whether the gate was opened before the timeout.
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
    """Wait for some time.

    :param seconds: the time; None: until a signal's handler raises.
    """
    Gate().wait(seconds)


def start(thread: threading.Thread) -> None:
    """Start a thread.

    :raises RuntimeError: the system gives no thread.
    """
    try:
        thread.start()
    except RuntimeError as error:
        # ``start`` waits for an event. What the handler of a signal raises there becomes an error about a lock.
        if error.__context__ is None or "lock" not in str(error):
            raise
        raise error.__context__ from None


class Condition(Lock):
    """A condition with a reentrant lock."""

    def __init__(self) -> None:
        super().__init__()
        self._gates: deque[Gate] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock until a notification or the timeout. The caller must have the lock.

        :param timeout: seconds; None: without limit.
        :returns: whether a notification came.
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
        """Wait until ``is_so`` returns True. The caller must have the lock.

        :param timeout: seconds.
        :returns: whether ``is_so`` returned True.
        """
        ends_at = time.monotonic() + timeout
        while not is_so():
            left = ends_at - time.monotonic()
            if left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self) -> None:
        """Wake one waiting thread. The caller must have the lock."""
        if self._gates:
            self._gates.popleft().open()

    def notify_all(self) -> None:
        """Wake all waiting threads. The caller must have the lock."""
        while self._gates:
            self.notify()


class ThreadFuture(Future[T]):
    """A future for a thread that signals may interrupt during its wait."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = Condition()
