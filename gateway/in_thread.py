"""Blocking work in another thread, and work at the end of a turn, as arguments.

The reactor's thread never waits for a disk: code that has to takes an ``InThread`` and goes on when its work is done.
The server passes one on the reactor's pool; programs and tests without a reactor pass ``in_this_thread``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

InThread: TypeAlias = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""``in_thread(work, done)``: run ``work`` in a thread, then ``done(its value, or Failed)`` on this one."""
Soon: TypeAlias = Callable[[Callable[[], None]], None]
"""Run a function at the end of this turn of the reactor."""


@final
class Failed:
    """The exception that work raised, handed over in place of a value."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error: Final = error


def in_this_thread(work: Callable[[], object], done: Callable[[Any], None]) -> None:
    """``InThread`` for programs without threads: blocks."""
    done(result_of(work))


def result_of(work: Callable[[], object]) -> object:
    """Run work in this thread, and return what ``done`` is to get: its value, or ``Failed``."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - handed over whole, as a thread does it
        return Failed(error)
