"""The lifetime of a client: usable until it is closed, in the process that made it, and missed when nobody closed it.

The base of all clients of both faces.
"""

from __future__ import annotations

import warnings
from typing import Any

from gateway.client import process
from gateway.client.errors import ClientClosed, UsedAfterFork


class Lifetime:
    """See the module.

    :param name: as ``"push consumer billing"``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        """What it is called in errors."""
        self._pid = process.number
        self._is_closed = False

    @property
    def _holds_something(self) -> bool:
        """Whether it has connections or a thread that a close would end."""
        return False

    def __del__(self, _warn: Any = warnings.warn) -> None:
        # Without the attribute its making failed.
        if not getattr(self, "_is_closed", True) and self._pid == process.number and self._holds_something:
            _warn(f"{self.name} was not closed", ResourceWarning, source=self, stacklevel=1)
            self._let_go()

    def abandon(self) -> None:
        """Give up without a word to anyone: the loop it ran on is gone, or about to go."""
        self._is_closed = True

    def _let_go(self) -> None:
        """End what can be ended without waiting, after the warning."""

    def _check_process(self) -> None:
        if self._pid != process.number:
            raise UsedAfterFork(self.name)

    def _check_usable(self) -> None:
        self._check_process()
        if self._is_closed:
            raise ClientClosed(self.name, "was closed")
