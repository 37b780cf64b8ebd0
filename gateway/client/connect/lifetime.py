"""The lifetime of a client: usable until closed, in the process that made it; a warning if it was never closed.

``Lifetime`` is the base of all clients, blocking and asyncio. A client that was started and never closed warns once:
when it is garbage, or when the program ends. The end of the program does not wait for the client, because its threads
may be frozen already.
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
"""The clients that were started, by ``id``; closed clients stay here until they are garbage."""


class Lifetime:
    """The state of a client from its creation to its close.

    :param name: such as ``"push consumer billing"``.
    """

    _is_watched = False

    def __init__(self, name: str) -> None:
        self.name = name
        """The name of the object in errors."""
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
        """Mark the client as closed without any other action: its loop is gone, or will be soon."""
        self._is_closed = True

    def _watch(self) -> None:
        """Warn later if the client is never closed; called when there is something to close."""
        self._is_watched = True
        _started[id(self)] = self

    def unwatch(self) -> None:
        """Never warn, because another client that was started with this client warns."""
        self._is_watched = False

    def _is_missed(self) -> bool:
        """Return whether the client should have been closed by now, and no warning was given."""
        return self._is_watched and not self._is_closed and self._pid == process.number

    def _warn(self) -> None:
        self._is_watched = False
        text = f"{self.name} was not closed: use it in a with block, or call close()"
        # Without ``source``: to show that, Python would import a module, and a second destructor would meet half of it.
        warnings.warn(text, ResourceWarning, stacklevel=2)

    def _let_go(self) -> None:
        """End everything that can end without waiting."""

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
