"""The flush of written data to the disk.

The commit log is flushed by interval with ASYNC_FLUSH; queues, index and checkpoint always are.

With SYNC_FLUSH the log itself is durable before a batch gets here. A failed sync is never tried again: the kernel may
have dropped the pages, so the store stops acknowledging and the next start recovers. Two errors are tried again: a lack
of space while derived files are *written*, because the same bytes are then written once more; and a file that could not
be opened, because nothing was tried yet.

Upstream: ``FlushRealTimeService``, ``FlushConsumeQueueService``, ``StoreCheckpoint``.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from gateway.settings.store import StoreSettings
from gateway.store.durability.checkpoint import Marks
from gateway.store.durability.store_files import StoreFiles, StoreState
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.errors import NO_SPACE, NOT_OPENED, NoDescriptor, WriteFailed
from gateway.store.log.log_batch import LogBatch
from gateway.telemetry.logs import EventLog
from wire.disk.consume_queue import UNIT_BYTES

log = EventLog("store")

PAGE_BYTES = 4096
"""The unit in bytes of upstream's least pages (``MappedFile.OS_PAGE_SIZE``)."""
MOST_FILES_COUNTED = 8
"""The most queue files by which the least pages are multiplied.

As upstream, the least pages of consume queues count for each written file, here for at most this many. Each sync of a
file delays the sync of the log. Units that are not on disk yet are made from the log by the next start.
"""
MAX_SYNCED_AT_START = 500
"""The most queue files whose sync a start waits for: each takes as long as a sync."""
NOT_WRITTEN = NOT_OPENED | NO_SPACE
"""The error numbers that pass for files that the next flush writes again."""


class Flushing:
    """The part that moves ``progress.flushed`` and the checkpoint on.

    ``flush`` and ``flush_due`` block, for any thread.

    :param room_bytes: returns how many bytes files that can be made again may take; blocks.
    """

    def __init__(
        self,
        files: StoreFiles,
        state: StoreState,
        settings: StoreSettings,
        surroundings: StoreSurroundings,
        room_bytes: Callable[[], int],
    ) -> None:
        self._room_bytes = room_bytes
        self._log = files.log
        self._queues = files.queues
        self._index = files.index
        self._checkpoint = files.checkpoint
        self._deleted_topics = files.deleted_topics
        self._lock = files.lock
        self._progress = state.progress
        self._admission = state.admission
        self._settings = settings
        self._sync = settings.sync_flush
        self._clock_ms = surroundings.clock_ms
        self._in_log_thread = surroundings.in_log_thread
        self._last_log_flush_ms = 0
        self._last_queue_flush_ms = 0
        self._last_thorough_ms = 0
        self._is_woken = False
        self.in_turn = Lock()
        """The lock that is held during a flush, and while the store closes its files."""

    # --- with every batch, on the reactor's thread ---------------------------------------------------------------

    def before_visible(self, batch: LogBatch) -> None:
        """Note with SYNC_FLUSH that the batch is on disk.

        A flush in another thread must not find a batch that is visible and not durable.
        """
        if self._sync:
            self._progress.flushed = batch.end

    def after_visible(self, batch: LogBatch) -> None:
        """Note in the checkpoint what is durable (SYNC_FLUSH), or wake the flush that waits for messages."""
        if self._sync:
            try:
                self._checkpoint.log_is_durable(batch.end, batch.outcomes[-1].stored_at_ms)
            except OSError as error:
                # With an older mark, recovery only reads more; the batch itself is on disk.
                log.error("checkpoint cannot be written", error=str(error))
        elif not self._settings.flush_commit_log_timed:
            self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._in_log_thread(lambda: self._flush_log_due(self._clock_ms()), self._woken)

    def _woken(self, _result: object) -> None:
        self._is_woken = False
        if self._enough_pages:
            self._wake()

    # --- by interval, in a thread --------------------------------------------------------------------------------

    def flush_due(self, now_ms: int) -> bool:
        """Flush if an interval is over; return whether a flush was done.

        Call ``flush_due`` every few hundred milliseconds. Every call also writes the held units, so that the files show
        nearly as much as the broker does.
        """
        settings, progress = self._settings, self._progress
        if self._queues.has_held:
            with self.in_turn:
                if self._may_flush:
                    self._write_queues()
        if _passed(self._last_queue_flush_ms, now_ms, settings.flush_interval_consume_queue_ms) and self._has_unsaved:
            unsaved_bytes = (progress.dispatched_count - progress.saved_count) * UNIT_BYTES
            files = min(max(self._queues.unsynced_files, 1), MOST_FILES_COUNTED)
            enough = unsaved_bytes >= settings.flush_consume_queue_least_pages * PAGE_BYTES * files
            thorough = _passed(self._last_thorough_ms, now_ms, settings.flush_consume_queue_thorough_interval_ms)
            if enough or thorough:
                self._last_queue_flush_ms = self._last_log_flush_ms = self._last_thorough_ms = now_ms
                return self.flush(due_only=True)
        return self._flush_log_due(now_ms)

    def _flush_log_due(self, now_ms: int) -> bool:
        thorough = _passed(self._last_log_flush_ms, now_ms, self._settings.flush_commit_log_thorough_interval_ms)
        if not (self._enough_pages or (thorough and self._behind > 0)):
            return False
        self._last_log_flush_ms = now_ms
        with self.in_turn:
            return self._flush_log(self._log.visible_end)

    @property
    def _behind(self) -> int:
        return self._log.visible_end - self._progress.flushed

    @property
    def _enough_pages(self) -> bool:
        behind = self._behind
        return behind > 0 and behind >= self._settings.flush_commit_log_least_pages * PAGE_BYTES

    @property
    def _has_unsaved(self) -> bool:
        marks = self._checkpoint.marks
        return (
            marks is None
            or marks.queues != self._progress.dispatched_end
            or (marks.index.scanned != self._index.scanned and self._index.flush_is_due)
        )

    # --- everything ----------------------------------------------------------------------------------------------

    def flush(self, *, due_only: bool = False) -> bool:
        """Bring everything visible to the disk: log, queues, index, checkpoint; return whether all of it is there.

        :param due_only: leave out the key index, whose flush writes the most, until its own interval is over.
        """
        with self.in_turn:
            if not self._may_flush:
                return False
            # Read index, dispatched end and visible end in this order. The other thread moves them in reverse order: a
            # message becomes visible, is dispatched, then is indexed. No mark may point beyond the log that is made
            # durable below.
            index = self._index.snapshot(due_only=due_only, room_bytes=self._room_bytes())
            progress = self._progress
            count, stored_ms, end = progress.dispatched_count, progress.dispatched_ms, progress.dispatched_end
            visible = self._log.visible_end
            if not (self._flush_log(visible) and self._write_queues() and self._sync_queues()):
                self._index.give_back(index)
                return False
            try:
                self._index.sync(index)
                self._queues.list_changed(end)
                self._deleted_topics.save()  # queues of deleted topics were not synced
                self._checkpoint.save(
                    Marks(durable=visible, queues=end, index=index.mark),
                    log_stored_at_ms=stored_ms,
                    queues_stored_at_ms=stored_ms,
                )
            except OSError as error:
                self._index.give_back(index)
                self._judge("flush of index, lists and checkpoint", error, NOT_WRITTEN)
                return False
            progress.saved_count = count
            return True

    def flush_log(self, end: int = 0) -> bool:
        """Bring the visible log to the disk, without queues and index; return whether the log is there.

        :param end: the offset up to which the log is brought there even if it is not visible.
        """
        with self.in_turn:
            return self._may_flush and self._flush_log(max(self._log.visible_end, end))

    def flush_opened(self) -> bool:
        """Flush after recovery: everything, or only the log if recovery wrote very many queues.

        In the second case the next timed flush brings the queues to the disk. Until then the checkpoint stays, and
        another start would read the same part of the log again.
        """
        if self._checkpoint.marks is None or self._queues.unsynced_files <= MAX_SYNCED_AT_START:
            return self.flush()
        return self.flush_log()

    @property
    def _may_flush(self) -> bool:
        return self._admission.failure is None and self._lock.is_held

    def _flush_log(self, end: int) -> bool:
        if end <= self._progress.flushed:
            return True
        if self._admission.failure is not None:
            return False
        try:
            self._log.sync_range(self._progress.flushed, end)
        except NoDescriptor as error:
            log.error("flush did not end, it is tried again", what="sync of the commit log", error=str(error))
            return False
        except WriteFailed as error:
            self._admission.fail(error)
            return False
        self._progress.flushed = end
        return True

    def _write_queues(self) -> bool:
        end = self._progress.dispatched_end
        is_written = self._ended("write of the consume queues", self._queues.write_held, NOT_WRITTEN)
        if is_written:
            self._progress.written_end = end
        self._progress.write_failed = not is_written
        return is_written

    def _sync_queues(self) -> bool:
        return self._ended("sync of the consume queues", self._queues.sync, NOT_OPENED)

    def _ended(self, what: str, work: Callable[[], None], passing: frozenset[int]) -> bool:
        """Run a part of a flush; return whether it succeeded. Errors of the ``passing`` kinds do not fail the store."""
        try:
            work()
        except OSError as error:
            self._judge(what, error, passing)
            return False
        return True

    def _judge(self, what: str, error: OSError, passing: frozenset[int]) -> None:
        if error.errno in passing:
            log.error("flush did not end, it is tried again", what=what, error=str(error))
        else:
            self._admission.fail(f"{what} failed: {error}")


def _passed(since_ms: int, now_ms: int, interval_ms: int) -> bool:
    """Return whether an interval is over.

    The result is also True if the clock was set back, so that flushing does not stop for a day.
    """
    return not 0 <= now_ms - since_ms < interval_ms
