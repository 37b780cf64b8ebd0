"""The lock of the client for ``with``: a signal's handler that raises never leaves it locked for ever."""

from __future__ import annotations

import sys
import threading
from typing import Any

_ReentrantLock: Any = type(threading.RLock())


class Lock(_ReentrantLock):  # type: ignore[misc]
    """A reentrant lock for ``with``: if a signal's handler raises at the start, the lock is as it was before.

    From Python 3.14 on, the interpreter looks for signals after the call of an ``__enter__`` that is no Python code,
    and before it notes that ``__exit__`` has to be called. After Python code it does not look there.
    """

    if sys.version_info >= (3, 14):

        def __enter__(self) -> bool:
            depth = self._recursion_count()
            try:
                self.acquire()
            except BaseException:
                while self._recursion_count() > depth:
                    self.release()
                raise
            return True
