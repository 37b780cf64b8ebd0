"""Group commit: what arrived while the last batch went to the disk is the next batch.

    SYNC_FLUSH    gather → write → thread: sync → stored → answers; one batch in flight, the next one gathers meanwhile,
                  and goes to the disk before the senders of the one that came back are answered
    ASYNC_FLUSH   gather until the end of the turn → write → stored → answers; syncs come by timer

A batch is written at once, into the system's memory, when its files are there; one that has to make a file, or is
large, is written in the thread. So what has to change threads for each batch is nothing but the sync.

No waiting time: a lone message goes at once, a thousand at a time share one sync. All methods run on one thread, the
reactor's; only ``write`` and ``sync`` may run in another. The one timer looks after a disk that does not answer.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from gateway.in_thread import InThread, Soon, result_of
from gateway.store.log.log_batch import LogBatch
from gateway.telemetry.logs import EventLog

log = EventLog("store")

WRITTEN_AT_ONCE_BYTES = 8 * 1024 * 1024
"""With SYNC_FLUSH a larger batch is written in the thread: copying it takes milliseconds, and nobody is answered."""

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


class GroupCommit:
    """Gathers batches and brings them to the disk one after the other.

    :param write: hands a batch to the system; raises ``DiskFull`` or ``WriteFailed``.
    :param sync: returns when a written batch is on disk; blocks; raises ``WriteFailed``. None: ASYNC_FLUSH.
    :param stored: told of each batch that is there, in order.
    :param failed: told of a batch that is not, with the reason; it also disposes of ``gathering``.
    :param hasty: told of a batch that is written and not yet on disk, when it has waiters for that.
    :param overdue: told of a written batch that is not on disk after ``timeout_ms``; may be told again.
    :param in_thread: runs ``write`` when it would block; ``in_sync`` runs ``sync``.
    :param later: runs a function after a time; with the default nothing is ever overdue.
    """

    __slots__ = (
        "_additions",
        "_failed",
        "_hasty",
        "_in_sync",
        "_in_thread",
        "_is_landing",
        "_landed",
        "_later",
        "_new_batch",
        "_overdue",
        "_scheduled",
        "_soon",
        "_stored",
        "_sync",
        "_timeout_ms",
        "_unwatch",
        "_watched",
        "_write",
        "gathering",
        "in_flight",
        "is_adding",
    )

    def __init__(
        self,
        *,
        new_batch: Callable[[], LogBatch],
        write: Callable[[LogBatch], None],
        sync: Callable[[LogBatch], None] | None,
        stored: Callable[[LogBatch], None],
        failed: Callable[[LogBatch, BaseException], None],
        hasty: Callable[[LogBatch], None],
        overdue: Callable[[LogBatch], None],
        soon: Soon,
        in_thread: InThread,
        in_sync: InThread,
        later: Later,
        timeout_ms: int,
    ) -> None:
        self._new_batch = new_batch
        self._write = write
        self._sync = sync
        self._stored = stored
        self._failed = failed
        self._hasty = hasty
        self._overdue = overdue
        self._soon = soon
        self._in_thread = in_thread
        self._in_sync = in_sync
        self._later = later
        self._timeout_ms = timeout_ms
        self._additions: list[Callable[[], None]] = []
        self._scheduled = False
        self._landed: deque[LogBatch] = deque()
        self._is_landing = False
        self._watched: LogBatch | None = None
        self._unwatch: Cancel | None = None
        self.in_flight: LogBatch | None = None
        self.is_adding = False
        """What is appended now was asked for by ``before_next``: it goes however much else has been gathered."""
        self.gathering = new_batch()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for the disk."""
        return self.in_flight is None and not self.gathering.waiters and not self._landed

    def wake(self) -> None:
        """Something was added to ``gathering``: see to it that it goes."""
        if not self._scheduled and self.in_flight is None:
            self._scheduled = True
            self._soon(self._turn)

    def before_next(self, add: Callable[[], None]) -> None:
        """Call ``add`` once, right before the next batch goes: what it appends goes along."""
        self._additions.append(add)
        self.wake()

    def restart(self) -> LogBatch:
        """Begin a new batch at the log's current place; returns what was gathered before."""
        gathered = self.gathering
        gathered.seal()
        self.gathering = self._new_batch()
        return gathered

    def _turn(self) -> None:
        if self._additions and self.in_flight is None:
            self._let_add()
        self._scheduled = False
        if self.in_flight is not None or not self.gathering.waiters:
            if self._additions:  # of those who just added; else the batch in flight wakes it
                self.wake()
            return
        batch = self.in_flight = self.restart()
        if self._sync is None:
            self._done(result_of(lambda: self._write(batch)))
            return
        if self._unwatch is None:
            self._watch(batch)
        if not batch.has_its_files or batch.size > WRITTEN_AT_ONCE_BYTES:
            self._in_thread(lambda: self._write(batch), self._written)
            return
        self._written(result_of(lambda: self._write(batch)))

    def _let_add(self) -> None:
        additions, self._additions = self._additions, []
        self._scheduled = self.is_adding = True  # what is added needs no turn of its own
        for add in additions:
            try:
                add()
            except Exception as error:  # noqa: BLE001 - what others have gathered must go all the same
                log.error("nothing added to a batch", failure=error)
        self._scheduled = self.is_adding = False

    def write_now(self) -> None:
        """Bring what is gathered to the disk in this thread; only while nothing is in flight (closing)."""
        assert self.in_flight is None, "one batch at a time"
        self._let_add()
        if self.gathering.waiters:
            batch = self.in_flight = self.restart()
            self._done(result_of(lambda: self._write_and_sync(batch)))

    def stop_watching(self) -> None:
        """Take back the timer, when there is one (closing)."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = self._watched = None

    def _write_and_sync(self, batch: LogBatch) -> None:
        self._write(batch)
        if self._sync is not None:
            self._sync(batch)

    def _written(self, result: object) -> None:
        batch, sync = self.in_flight, self._sync
        assert batch is not None, "a result without a batch"
        assert sync is not None, "ASYNC_FLUSH has nothing to do after it"
        if isinstance(result, BaseException):
            self._done(result)
            return
        self._in_sync(lambda: sync(batch), self._done)
        if batch.has_hasty and self.in_flight is batch:
            self._hasty(batch)  # the sync does not wait for their answers

    def _done(self, result: object) -> None:
        batch, self.in_flight = self.in_flight, None
        assert batch is not None, "a result without a batch"
        if isinstance(result, BaseException):
            self._failed(batch, result)
        else:
            self._landed.append(batch)
            if self._sync is not None:
                # The sync that just ended was their waiting time. The disk does not wait for the answers either.
                self._turn()
            self._land()
        if self.gathering.waiters or self._additions:
            self.wake()

    def _land(self) -> None:
        """Tell of stored batches in order, also when a callback, or an executor that runs at once, brings more."""
        if self._is_landing:
            return
        self._is_landing = True
        try:
            while self._landed:
                self._stored(self._landed.popleft())
        finally:
            self._is_landing = False

    # --- a disk that does not answer -----------------------------------------------------------------------------

    def _watch(self, batch: LogBatch) -> None:
        """Look at the batch in flight again after the timeout. One timer for many batches: it is renewed only when it
        has run out while something is in flight, so a batch is overdue after one to two timeouts.
        """
        self._watched = batch
        self._unwatch = self._later(self._timeout_ms, self._look)

    def _look(self) -> None:
        watched, self._watched, self._unwatch = self._watched, None, None
        batch = self.in_flight
        if batch is not None:
            if batch is watched and batch.is_written:
                self._overdue(batch)
            self._watch(batch)
