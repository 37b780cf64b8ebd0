"""Interfaces for blocking work in another thread and for work at the end of a turn, which callers pass as arguments.

The reactor's thread waits for no disk, except for a quick one (decision 0021). Code that needs the disk takes an
``InThread`` and continues when the work is done. The server passes the log's thread to the store, and the reactor's
thread pool to other parts. Programs and tests without a reactor pass ``in_this_thread``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar, final

T = TypeVar("T")
Soon: TypeAlias = Callable[[Callable[[], None]], None]
"""A function that runs another function at the end of this turn of the reactor."""


@final
class Failed:
    """The exception that a work raised, passed on in the place of a value."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error: Final = error


class InThread(Protocol):
    """A function that runs another function in a thread."""

    def __call__(self, work: Callable[[], T], done: Callable[[T | Failed], None], /) -> None:
        """Run ``work`` in a thread, then ``done`` here with the value of the work, or with ``Failed``."""


def in_this_thread(work: Callable[[], T], done: Callable[[T | Failed], None], /) -> None:
    """Implement ``InThread`` for programs without threads; blocks."""
    done(result_of(work))


def result_of(work: Callable[[], T]) -> T | Failed:
    """Run a work in this thread, and return the argument for ``done``: the work's value, or ``Failed``."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - handed over whole, as a thread does it
        return Failed(error)
