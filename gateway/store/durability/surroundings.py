"""What the program around a store gives to it, as one value. A store has no clock, thread or timer of its own."""

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
"""Runs a function on the reactor thread after milliseconds; the value takes that back."""


def at_once(function: Callable[[], None]) -> None:
    """``Soon`` for programs without a reactor: every append is a batch of its own."""
    function()


def never(_delay_ms: int, _function: Callable[[], None]) -> Cancel:
    """``Later`` for programs without a reactor: time does not pass."""
    return _nothing


def _nothing() -> None:
    """There is no timer to take back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSurroundings:
    """Clock, files, threads, timers and metrics for one store; the defaults suit a program without a reactor."""

    clock_ms: Milliseconds
    files: FileLayer | None = None
    """Every access to the disk goes through it; None: the system's files."""
    soon: Soon = at_once
    """Runs a function at the end of this reactor turn."""
    in_thread: InThread = in_this_thread
    """Runs blocking work in one thread, in order."""
    in_sync: InThread | None = None
    """Runs the sync of a batch; None: ``in_thread`` does."""
    later: Later = never
    """Runs a function after a time, on the reactor's thread."""
    registry: Registry = field(default_factory=Registry)
    """Gets the store's metrics."""
