"""A loop whose time jumps to the next timer whenever there is nothing else to do, so that no test waits for it.

For what runs on the loop alone: with threads, or with sockets whose other end is elsewhere, time would run away.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumps(selectors.DefaultSelector):
    """Never waits; tells how long it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing will ever happen: no timer, nothing ready"
        self.passed += timeout
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps and begins at 0; see the module."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        """Seconds for which the loop was asked to wait so far."""
        return self._jumps.passed


class PushedLoop(asyncio.SelectorEventLoop):
    """A loop with real time, which a test may push on: for what talks over sockets, and never waits for a timeout."""

    pushed = 0.0

    def time(self) -> float:
        """Real time, and how far it was pushed on."""
        return super().time() + self.pushed


def push_time(seconds: float) -> None:
    """Let time pass on the ``PushedLoop`` that runs this."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PushedLoop), "the test runs on another loop"
    loop.pushed += seconds


def run_jumping(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine on such a loop."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)
