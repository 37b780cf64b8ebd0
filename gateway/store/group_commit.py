"""Group commit: what arrived while the last batch went to the disk is the next batch.

    SYNC_FLUSH    gather → thread: write, sync → stored → answers; one batch in flight, the next one gathers meanwhile
    ASYNC_FLUSH   gather until the end of the turn → write at once → stored → answers; syncs come by timer

No timer and no waiting time: a lone message goes at once, a thousand at a time share one sync. All methods run on one
thread, the reactor's; only ``write`` may run in another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.store.errors import DiskFull, WriteFailed
from gateway.store.log_batch import LogBatch

Soon: TypeAlias = Callable[[Callable[[], None]], None]
"""Runs a function at the end of this reactor turn."""
InThread: TypeAlias = Callable[[Callable[[], object], Callable[[object], None]], None]
"""Runs a blocking function in a thread, then tells its value, or the exception it raised, on the reactor thread."""


def at_once(function: Callable[[], None]) -> None:
    """``Soon`` for programs without a reactor: every append is a batch of its own."""
    function()


def in_this_thread(work: Callable[[], object], on_result: Callable[[object], None]) -> None:
    """``InThread`` for programs without threads: blocks."""
    result: object
    try:
        result = work()
    except (OSError, DiskFull, WriteFailed) as error:
        result = error
    on_result(result)


class GroupCommit:
    """Gathers batches and brings them to the disk one after the other.

    :param write: brings a batch to the disk; blocks; raises ``DiskFull`` or ``WriteFailed``.
    :param stored: told of each batch that is there, in order.
    :param failed: told of a batch that is not, with the reason; it also disposes of ``gathering``.
    """

    __slots__ = (
        "_failed",
        "_in_thread",
        "_new_batch",
        "_scheduled",
        "_soon",
        "_stored",
        "_sync",
        "_write",
        "gathering",
        "in_flight",
    )

    def __init__(
        self,
        *,
        sync: bool,
        new_batch: Callable[[], LogBatch],
        write: Callable[[LogBatch], None],
        stored: Callable[[LogBatch], None],
        failed: Callable[[LogBatch, BaseException], None],
        soon: Soon,
        in_thread: InThread,
    ) -> None:
        self._sync = sync
        self._new_batch = new_batch
        self._write = write
        self._stored = stored
        self._failed = failed
        self._soon = soon
        self._in_thread = in_thread
        self._scheduled = False
        self.in_flight: LogBatch | None = None
        self.gathering = new_batch()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for the disk."""
        return self.in_flight is None and not self.gathering.waiters

    def wake(self) -> None:
        """Something was added to ``gathering``: see to it that it goes."""
        if not self._scheduled and self.in_flight is None:
            self._scheduled = True
            self._soon(self._turn)

    def restart(self) -> LogBatch:
        """Begin a new batch at the log's current place; returns what was gathered before."""
        gathered, self.gathering = self.gathering, self._new_batch()
        return gathered

    def _turn(self) -> None:
        self._scheduled = False
        if self.in_flight is not None or not self.gathering.waiters:
            return
        batch = self.in_flight = self.restart()
        if self._sync:
            self._in_thread(lambda: self._write(batch), self._done)
        else:
            in_this_thread(lambda: self._write(batch), self._done)

    def write_now(self) -> None:
        """Bring what is gathered to the disk in this thread; only while nothing is in flight (closing)."""
        assert self.in_flight is None, "one batch at a time"
        if self.gathering.waiters:
            batch = self.in_flight = self.restart()
            in_this_thread(lambda: self._write(batch), self._done)

    def _done(self, result: object) -> None:
        batch, self.in_flight = self.in_flight, None
        assert batch is not None, "a result without a batch"
        if isinstance(result, BaseException):
            self._failed(batch, result)
        else:
            self._stored(batch)
        if self.gathering.waiters:
            # The sync that just ended was their waiting time: no further turn.
            if self._sync:
                self._turn()
            else:
                self.wake()
