"""The things that the program around a store gives to it, as one value.

A store has no clock, thread or timer of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.clock import Milliseconds
from gateway.in_thread import InThread, Soon, in_this_thread
from gateway.store.disk.files import FileLayer
from gateway.telemetry.metrics import Registry

Cancel: TypeAlias = Callable[[], None]
Later: TypeAlias = Callable[[int, Callable[[], None]], Cancel]
"""A function that runs another on the reactor's thread after a number of milliseconds, and returns its cancellation."""


def at_once(function: Callable[[], None]) -> None:
    """Run the function now: ``Soon`` for programs without a reactor, where every append is a batch of its own."""
    function()


def never(_delay_ms: int, _function: Callable[[], None]) -> Cancel:
    """Do nothing: ``Later`` for programs without a reactor, where time does not pass."""
    return _nothing


def _nothing() -> None:
    """Do nothing, because there is no timer to cancel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSurroundings:
    """Clock, files, threads, timers and metrics for one store; the defaults suit a program without a reactor."""

    clock_ms: Milliseconds
    files: FileLayer | None = None
    """The layer through which every access to the disk goes; None: the system's files."""
    soon: Soon = at_once
    """The function that runs another at the end of this reactor turn."""
    in_thread: InThread = in_this_thread
    """The function that runs blocking work in one thread, in order."""
    in_sync: InThread | None = None
    """The function that runs the sync of a batch; None: ``in_thread`` does this."""
    later: Later = never
    """The function that runs another on the reactor's thread after a number of milliseconds."""
    registry: Registry = field(default_factory=Registry)
    """The registry of the store's metrics."""
