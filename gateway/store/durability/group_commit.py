"""Group commit: the messages that arrive while one batch goes to the disk form the next batch.

    SYNC_FLUSH    gather → write → thread: sync → stored → answers; one batch is in flight, and the next batch gathers.
                  When a batch comes back, the next batch goes to the disk first; then senders are answered.
    ASYNC_FLUSH   gather until the end of the turn → write → stored → answers; syncs come by timer

A batch is written at once, into the system's memory, if its files exist. A batch that has to make a file, or is large,
is written in the thread. For most batches, therefore, only the sync has to change threads.

Stored batches go to a ``BatchObserver``: ``Publication`` makes them visible and answers their senders. A further stage
before ``Publication`` is also a ``BatchObserver``: it gets every notice first, and passes the notices on in order.

There is no waiting time: a lone message goes at once, and a thousand concurrent messages share one sync. All methods
run on one thread, the reactor's; only ``write`` and ``sync`` may run in another. The only timer watches for a disk that
does not answer.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from gateway.in_thread import Failed, result_of
from gateway.store.durability.surroundings import BatchObserver, Cancel, StoreSurroundings
from gateway.store.log.log_batch import LogBatch
from gateway.telemetry.logs import EventLog

log = EventLog("store")

WRITTEN_AT_ONCE_BYTES = 8 * 1024 * 1024
"""The largest batch, in bytes, that is written on the reactor's thread with SYNC_FLUSH.

To copy a larger batch takes milliseconds, in which no sender is answered.
"""


class BatchLog(Protocol):
    """A log to which batches are written. ``write`` and ``sync`` block, and may run in a thread."""

    def new_batch(self) -> LogBatch:
        """Return an empty batch at the log's current place."""

    def write(self, batch: LogBatch) -> None:
        """Hand a batch to the system.

        :raises DiskFull: there is no room for the batch.
        :raises WriteFailed: the disk failed.
        """

    def sync(self, batch: LogBatch) -> None:
        """Return when a written batch is on disk.

        :raises WriteFailed: the disk failed.
        """


class GroupCommit:
    """The part that gathers batches and brings them to the disk one after the other.

    :param surroundings: ``in_log_thread`` runs a write that would block, ``in_sync`` each sync.
    :param syncs: True if each batch is brought to the disk by its own sync (SYNC_FLUSH).
    :param timeout_ms: the time in milliseconds after which a batch that is not on disk is overdue.
    """

    def __init__(
        self,
        log: BatchLog,
        observer: BatchObserver,
        surroundings: StoreSurroundings,
        *,
        syncs: bool,
        timeout_ms: int,
    ) -> None:
        self._new_batch = log.new_batch
        self._write = log.write
        self._sync = log.sync if syncs else None
        self._stored = observer.stored
        self._failed = observer.failed
        self._hasty = observer.hasty
        self._overdue = observer.overdue
        self._soon = surroundings.soon
        self._in_log_thread = surroundings.in_log_thread
        self._in_sync = surroundings.in_sync or surroundings.in_log_thread
        self._later = surroundings.later
        self._timeout_ms = timeout_ms
        self._additions: list[Callable[[], None]] = []
        self._scheduled = False
        self._landed: deque[LogBatch] = deque()
        self._is_landing = False
        self._watched: LogBatch | None = None
        self._unwatch: Cancel | None = None
        self.in_flight: LogBatch | None = None
        self.is_adding = False
        """True while callbacks of ``before_next`` append: the limit of a batch does not apply to their messages."""
        self.gathering = log.new_batch()
        self.stored_end = 0
        """The offset in the log after the last batch of which the observer was notified that it is stored."""

    @property
    def is_idle(self) -> bool:
        """True if nothing waits for the disk."""
        return self.in_flight is None and not self.gathering.waiters and not self._landed

    @property
    def has_additions(self) -> bool:
        """True if callbacks of ``before_next`` have still to be called."""
        return bool(self._additions)

    def wake(self) -> None:
        """Make sure that ``gathering``, to which something was added, goes to the disk soon."""
        if not self._scheduled and self.in_flight is None:
            self._scheduled = True
            self._soon(self._turn)

    def before_next(self, add: Callable[[], None]) -> None:
        """Call ``add`` once, right before the next batch goes: messages that ``add`` appends join that batch."""
        self._additions.append(add)
        self.wake()

    def restart(self) -> LogBatch:
        """Start a new batch at the log's current place; return the batch that was gathered before."""
        gathered = self.gathering
        gathered.seal()
        self.gathering = self._new_batch()
        return gathered

    def _turn(self) -> None:
        if self._additions and self.in_flight is None:
            self._let_add()
        self._scheduled = False
        if self.in_flight is not None or not self.gathering.waiters:
            if self._additions:  # added during the callbacks; while a batch is in flight, its end wakes
                self.wake()
            return
        batch = self.in_flight = self.restart()
        if self._sync is None:
            self._done(result_of(lambda: self._write(batch)))
            return
        if self._unwatch is None:
            self._watch(batch)
        if not batch.has_its_files or batch.size > WRITTEN_AT_ONCE_BYTES:
            self._in_log_thread(lambda: self._write(batch), self._written)
            return
        self._written(result_of(lambda: self._write(batch)))

    def _let_add(self) -> None:
        additions, self._additions = self._additions, []
        self._scheduled = self.is_adding = True  # the added messages need no turn of their own
        for add in additions:
            try:
                add()
            except Exception as error:  # noqa: BLE001 - what others have gathered must go all the same
                log.error("nothing added to a batch", failure=error)
        self._scheduled = self.is_adding = False

    def write_now(self) -> None:
        """Bring the gathered batch to the disk in this thread.

        Only while no batch is in flight, when the store closes: the observer is notified before this method returns,
        also if a callback of a landing batch closes the store.
        """
        assert self.in_flight is None, "one batch at a time"
        self._let_add()
        if self.gathering.waiters:
            batch = self.in_flight = self.restart()
            self._done(result_of(lambda: self._write_and_sync(batch)))
            self._is_landing = False
            self._land()

    def stop_watching(self) -> None:
        """Cancel the timer, if one runs, when the store closes."""
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
        if isinstance(result, Failed):
            self._done(result)
            return
        self._in_sync(lambda: sync(batch), self._done)
        if batch.has_hasty and self.in_flight is batch:
            self._hasty(batch)  # these senders are answered while the sync runs

    def _done(self, result: object) -> None:
        batch, self.in_flight = self.in_flight, None
        assert batch is not None, "a result without a batch"
        if isinstance(result, Failed):
            self._failed(batch, result.error)
        else:
            self._landed.append(batch)
            if self._sync is not None:
                # The next batch gathered during the sync that just ended. It goes to the disk before answers go out.
                self._turn()
            self._land()
        if self.gathering.waiters or self._additions:
            self.wake()

    def _land(self) -> None:
        """Notify the observer of stored batches in order.

        The order also holds if a callback, or an executor that runs at once, brings more batches.
        """
        if self._is_landing:
            return
        self._is_landing = True
        try:
            while self._landed:
                batch = self._landed.popleft()
                self.stored_end = batch.end
                self._stored(batch)
        finally:
            self._is_landing = False

    # --- a disk that does not answer -----------------------------------------------------------------------------

    def _watch(self, batch: LogBatch) -> None:
        """Check the batch in flight again after the timeout.

        One timer serves many batches: it is renewed only if it runs out while a batch is in flight. A batch is
        therefore overdue after one to two timeouts.
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
