"""The things that the program around a store gives to it, as one value.

A store has no clock, thread or timer of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from gateway.clock import Milliseconds
from gateway.in_thread import InThread, Soon, in_this_thread
from gateway.store.disk.files import FileLayer
from gateway.store.log.log_batch import LogBatch
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


class BatchObserver(Protocol):
    """An observer that is notified of the outcome of batches, on the reactor's thread."""

    def stored(self, batch: LogBatch) -> None:
        """Note that a batch is as durable as it has to be; called for each batch, in order."""

    def failed(self, batch: LogBatch, reason: BaseException) -> None:
        """Note that a batch could not be stored, and why; dispose of the gathered messages, too."""

    def hasty(self, batch: LogBatch) -> None:
        """Note that a batch is written but not yet on disk; called if a sender waits only for the write."""

    def overdue(self, batch: LogBatch) -> None:
        """Note that a written batch is not on disk after the time-out; may be called several times."""


def no_stage(observer: BatchObserver) -> BatchObserver:
    """Return the observer itself: batches become visible as soon as they are on disk."""
    return observer


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSurroundings:
    """Clock, files, threads, timers and metrics for one store; the defaults suit a program without a reactor."""

    clock_ms: Milliseconds
    files: FileLayer | None = None
    """The layer through which every access to the disk goes; None: the system's files."""
    soon: Soon = at_once
    """The function that runs another at the end of this reactor turn."""
    in_log_thread: InThread = in_this_thread
    """The function that runs blocking work in one thread, in order."""
    in_sync: InThread | None = None
    """The function that runs the sync of a batch; None: ``in_log_thread`` does this."""
    later: Later = never
    """The function that runs another on the reactor's thread after a number of milliseconds."""
    stage: Callable[[BatchObserver], BatchObserver] = no_stage
    """The function that makes a further stage, which passes batches on to the observer given to the function."""
    registry: Registry = field(default_factory=Registry)
    """The registry of the store's metrics."""
