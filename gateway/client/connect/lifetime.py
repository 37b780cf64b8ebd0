"""The lifetime of a client: usable until it is closed, in the process that made it, and missed when nobody closed it.

The base of all clients of both faces. A client that was started and is never closed warns once: when it is garbage, or
when the program ends. Nothing waits for it then, since the threads of a program that ends may be frozen already.
"""

from __future__ import annotations

import atexit
import sys
import warnings
import weakref
from typing import Any, Final

from gateway.client import process
from gateway.client.errors import ClientClosed, UsedAfterFork

_started: Final[weakref.WeakValueDictionary[int, Lifetime]] = weakref.WeakValueDictionary()
"""Clients that were started, by ``id``; closed ones stay until they are garbage."""


class Lifetime:
    """See the module.

    :param name: as ``"push consumer billing"``.
    """

    _is_watched = False

    def __init__(self, name: str) -> None:
        self.name = name
        """What it is called in errors."""
        self._pid = process.number
        self._is_closed = False

    def __del__(self, _is_ending: Any = sys.is_finalizing) -> None:
        if self._is_watched and not _is_ending() and self._is_missed():
            self._let_go()
            self._warn()

    def __getstate__(self) -> object:
        raise TypeError(
            f"{self.name} cannot be pickled: connections and threads do not travel to another process. Make and start "
            f"a client of its own there (multiprocessing: in the target function)"
        )

    def abandon(self) -> None:
        """Give up without a word to anyone: the loop it ran on is gone, or about to go."""
        self._is_closed = True

    def _watch(self) -> None:
        """Warn if it is never closed; called when there is something to close."""
        self._is_watched = True
        _started[id(self)] = self

    def unwatch(self) -> None:
        """Never warn: another client that was started with it warns."""
        self._is_watched = False

    def _is_missed(self) -> bool:
        """Whether it should have been closed by now and nobody was told."""
        return self._is_watched and not self._is_closed and self._pid == process.number

    def _warn(self) -> None:
        self._is_watched = False
        text = f"{self.name} was not closed: use it in a with block, or call close()"
        # Without ``source``: to show that, Python would import a module, and a second destructor would meet half of it.
        warnings.warn(text, ResourceWarning, stacklevel=2)

    def _let_go(self) -> None:
        """End what can be ended without waiting."""

    def _check_process(self) -> None:
        if self._pid != process.number:
            raise UsedAfterFork(self.name)

    def _check_usable(self) -> None:
        self._check_process()
        if self._is_closed:
            raise ClientClosed(self.name, "was closed")


# Registered before any client exists, so that it comes after every `atexit.register(client.close)`.
@atexit.register
def _miss_all() -> None:
    for reference in _started.valuerefs():
        client = reference()
        if client is not None and client._is_missed():
            client._warn()
