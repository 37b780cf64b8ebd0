"""The message store: one object that appends to and reads from commit log, consume queues and key index.

The store is passive: it has no reactor and no clock of its own. One thread of the caller appends and makes every change
that readers see; ``in_log_thread`` runs blocking work; any thread may read. A message becomes visible, and its callback
runs, once the message is as durable as ``flush_disk_type`` promises.

    append ─ Appender ─ GroupCommit ─ CommitLog ─ Publication ─ queues, index, listeners, callbacks
    upkeep: Flushing (what is on disk), Deletion (what is expired)          state: Admission, StoreProgress

Upstream: ``DefaultMessageStore``, which uses equal files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

from gateway.clock import Milliseconds
from gateway.errors import GatewayError
from gateway.in_thread import Failed, InThread, in_this_thread
from gateway.settings.store import StoreSettings
from gateway.store.admission import Admission
from gateway.store.disk.entry_kinds import make_directories, refuse_misfits
from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.paths import StorePaths
from gateway.store.disk.store_lock import StoreLock
from gateway.store.durability.admitted_log import AdmittedLog
from gateway.store.durability.appender import Appender, OnAllStored
from gateway.store.durability.checkpoint import CheckpointFile
from gateway.store.durability.copying import Copying, OnCopied
from gateway.store.durability.dispatch import BitMapOf, DelayOf, UnitDispatch, no_bit_map
from gateway.store.durability.flushing import Flushing
from gateway.store.durability.group_commit import GroupCommit
from gateway.store.durability.publication import Derived, Publication, SpaceWatch
from gateway.store.durability.store_files import StoreFiles, StoreState
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.errors import StoreError, StoreNotAccessible
from gateway.store.figures import StoreFigures, StoreProgress
from gateway.store.index.index import KeyIndex
from gateway.store.index.indexing import DispatchedLog, Indexing
from gateway.store.log.commit_log import CommitLog, head_at
from gateway.store.log.copied_records import CopiedRecords
from gateway.store.log.log_batch import NO_END
from gateway.store.log.log_bytes import durable_record, last_record, log_bytes, record_begins
from gateway.store.log.log_scan import refuse_misplaced
from gateway.store.put_result import WaitFor
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.store.queues.deleted_topics import DeletedTopics
from gateway.store.queues.extended_units import NotInMemory
from gateway.store.queues.queue_ends import QueueEnds
from gateway.store.reading.get_result import GetResult
from gateway.store.reading.hidden_queues import HiddenQueues, ShownQueue
from gateway.store.reading.queue_reader import QueueReader
from gateway.store.reading.wanted import ALL_WANTED, Wanted
from gateway.store.recovery.earlier_lives import is_of_another_broker
from gateway.store.recovery.log_cut import finish_cut
from gateway.store.recovery.queue_mending import QueueMending
from gateway.store.recovery.recovery import LastRun, Progress, Recovery
from gateway.store.recovery.recovery_report import RecoveryReport
from gateway.store.space.deletion import Deleted, Deletion, Survey
from gateway.store.space.retention import headroom_bytes, refusal_reason, space_text
from gateway.telemetry.logs import EventLog
from wire.disk.index_file import IndexShape
from wire.disk.queue_extension import ExtensionUnit, position_of
from wire.message.record import OutgoingMessage, StoredMessage

log = EventLog("store")

NOT_LOOKED_AT = (
    "disk full: what was stored since the free space was looked at may have taken all of it; it is looked at now"
)


class MessageStore:
    """One store directory.

    :param directory: the root; see ``paths``.
    :param delay_of: returns the delay of a level in milliseconds, for the queues of the schedule topic.
    :param bit_map_of: returns the groups for which a message passes the filter; used if ``enable_consume_queue_ext`` is
        on.
    :param topics: returns the topics of the table on disk, or None if they are unknown; called if another broker has
        served the directory.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings,
        surroundings: StoreSurroundings,
        *,
        delay_of: DelayOf | None = None,
        bit_map_of: BitMapOf = no_bit_map,
        topics: Callable[[], Container[str] | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._layer = layer = FileLayer() if surroundings.files is None else surroundings.files
        self._paths = paths = StorePaths(directory, settings.commit_log_below(directory))
        self._in_log_thread = surroundings.in_log_thread
        figures = StoreFigures(surroundings.registry)
        self._state = state = StoreState(StoreProgress(), Admission(), figures)
        self._figures, self._progress, self._admission = figures, state.progress, state.admission
        self._files = files = _made_files(layer, paths, settings, surroundings.clock_ms, state)
        self._lock, self._log, self._queues = files.lock, files.log, files.queues
        self._index, self._checkpoint = files.index, files.checkpoint
        self._dispatch = UnitDispatch(
            files.queues,
            delay_of,
            light_queues=settings.fills_light_queues,
            bit_map_of=bit_map_of if settings.enable_consume_queue_ext else None,
        )
        self._dispatched_log = DispatchedLog(files.log, state.progress)
        self._indexing = Indexing(files.index, files.log, surroundings.soon, enabled=settings.message_index_enable)
        self._reader = QueueReader(files.log, paths.root)
        self._hidden_from: int | None = None
        self._hidden: HiddenQueues | None = None
        self._flushing = Flushing(files, state, settings, surroundings, lambda: self.deletion.room_bytes())
        self.deletion = Deletion(files, state, settings, self._flushing.flush)
        self._publication = Publication(
            files,
            state,
            Derived(self._dispatch, self._indexing),
            self._flushing,
            surroundings.in_log_thread,
            SpaceWatch(lambda: space_text(self.deletion.disk_space()), self._look_soon, settings.max_unwritten_bytes),
        )
        self._group = self._publication.group = GroupCommit(
            AdmittedLog(files, state.admission),
            surroundings.stage(self._publication),
            surroundings,
            syncs=settings.sync_flush,
            timeout_ms=settings.sync_flush_timeout_ms,
        )
        self._appender = appender = Appender(files, state, self._group, settings, surroundings.clock_ms)
        self._copying = Copying(
            files, state, appender, self._dispatch, self._publication, self._flushing, surroundings.in_log_thread
        )
        # Not methods, because every message is appended here and a further call costs time.
        self.append = appender.append_or_dispatch if settings.fills_light_queues else appender.append
        self.append_run = appender.append_run
        # Calls that are passed on as they are.
        self.listen, self.when_idle = self._publication.listen, self._publication.when_idle
        self.flush_due, self.flush_log = self._flushing.flush_due, self._flushing.flush_log
        self.message_at = files.log.message_at
        self.walk_from = self._dispatched_log.walk_from
        self.query_by_key, self.each_with_key = self._indexing.find, self._indexing.each
        self.mend_queue = QueueMending(files.log, files.queues, self._dispatch, files.deleted_topics, paths).mend
        figures.watch(files.log, state.progress, state.admission)

    # --- opening and closing -------------------------------------------------------------------------------------

    def open(self, progress: Progress | None = None) -> RecoveryReport:
        """Lock the directory, load the files and recover; blocks.

        :raises StoreError: the directory cannot be used; the text says why and what to do.
        """
        try:
            return self._open(progress)
        except OSError as error:
            self._give_back()
            raise StoreNotAccessible(self._paths.root, error) from error
        except GatewayError:
            self._give_back()
            raise

    def _open(self, progress: Progress | None) -> RecoveryReport:
        paths, layer = self._paths, self._layer
        refuse_misfits(layer, paths.root)
        log_is_new = paths.commit_log.parent != paths.root and not layer.exists(paths.commit_log)
        make_directories(layer, paths)
        self._lock.take()
        cut_remarks: list[str] = []
        finish_cut(layer, paths, self._settings, cut_remarks.append)
        clean = not layer.exists(paths.abort)
        deleted_remark = self.deletion.deleted_topics.load()
        self.deletion.finish_interrupted()
        self._checkpoint.load()
        self._log.files.load()
        refuse_misplaced(self._log.files)
        self._appender.max_append_bytes = min(self._settings.max_record_bytes, self._log.largest_append)
        ends, same_run = self._listed_queues()
        remarks = [*cut_remarks, *self._log.files.remarks, *self._load_queues(ends, nothing_lost=clean or same_run)]
        if deleted_remark is not None:
            remarks.append(deleted_remark)
        if log_is_new:
            remarks.append(f"{paths.commit_log} (storePathCommitLog) did not exist and was made")
        last_run = LastRun(
            clean=clean,
            same_system=same_run,
            listed_end=ends.log_end,
            of_another=is_of_another_broker(self._checkpoint, layer, paths),
        )
        report = Recovery(
            self._files, self._dispatch, last_run, settings=self._settings, progress=progress, topics=self._topics
        ).run()
        self._progress.dispatched_end = self._progress.written_end = report.end_offset
        remarks += self._load_index(clean, report.end_offset)
        report.remarks[:0] = remarks
        self._group.restart()
        self._appender.last_stored_ms = self._progress.dispatched_ms = max(
            self._checkpoint.times.log_stored_at_ms, report.last_stored_at_ms
        )
        self._lock.mark_open()
        # All data that recovery used or wrote becomes durable before the first answer.
        self._progress.flushed = min(report.start_offset, report.end_offset)
        self._flushing.flush_opened()
        if self._admission.failure is not None:
            raise StoreError(self._admission.failure)
        self._admission.open()
        self.look_at_space(self.deletion.look())
        tell = log.error if report.durable_bytes_lost else log.warning
        for remark in report.remarks:
            tell("recovery", remark=remark)
        self._indexing.build_soon()
        return report

    def _listed_queues(self) -> tuple[QueueEnds, bool]:
        """Return the listed queues, and whether the same run of the system wrote the list.

        In that case the system lost no write since.
        """
        if self._checkpoint.is_foreign:  # another broker used the directory and may have deleted topics
            return QueueEnds(), False
        ends = self._queues.journal.load()
        return ends, ends.system_run == self._layer.system_run() != ""

    def _load_queues(self, ends: QueueEnds, *, nothing_lost: bool) -> list[str]:
        # After a power failure a queue may have units of messages that the log lost: all queues are opened.
        marks = self._checkpoint.marks
        untouched = nothing_lost and marks is not None and marks.queues == ends.log_end
        return self._queues.load(ends, untouched=untouched)

    def _load_index(self, clean: bool, end_offset: int) -> list[str]:
        if not self._settings.message_index_enable:
            return []
        marks = self._checkpoint.marks
        return self._index.load(
            clean=clean,
            checkpoint_ms=self._checkpoint.times.index_stored_at_ms,
            mark=marks.index if marks is not None else None,
            log_min=self._log.min_offset,
            log_end=end_offset,
        )

    def close(self) -> bool:
        """Bring everything to the disk and give the directory back; blocks.

        Call ``close`` after ``when_idle`` has called back. Return whether everything is on disk; if not, the next start
        recovers.
        """
        if not self._lock.is_held:
            return True
        self._group.stop_watching()
        self._group.write_now()
        self._admission.close()
        self._publication.catch_up()
        self._index.build_waiting()
        is_complete = self.flush() and self._publication.is_complete
        if is_complete:
            self._log.remove_files_ahead()
            self._queues.journal.sync()
            self._lock.mark_closed()
        self._give_back()
        return is_complete

    def _give_back(self) -> None:
        """Close every open file, and release the lock last."""
        with self._flushing.in_turn:
            self._queues.close()
            self._checkpoint.close()
            self._lock.release()

    # --- appending -----------------------------------------------------------------------------------------------

    def append_all(
        self, messages: Sequence[OutgoingMessage], on_stored: OnAllStored, wait_for: WaitFor = WaitFor.DISK
    ) -> None:
        """Append messages of any topics next to each other in one file: all of them or none.

        ``on_stored`` is called once with the results in order: when ``wait_for`` says so, or at once if the messages
        are refused.
        """
        self._appender.append_all(messages, on_stored, wait_for)

    def before_batch(self, add: Callable[[], None]) -> None:
        """Call ``add`` once, right before the next write of the log, so that its messages share that write.

        Inside ``add``, ``append_all`` does not refuse messages because senders have gathered many bytes: add little
        there.
        """
        self._group.before_next(add)

    # --- reading -------------------------------------------------------------------------------------------------

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        wanted: Wanted = ALL_WANTED,
    ) -> GetResult:
        """Return records of a queue from an offset on, as ``QueueReader.read`` does."""
        queue = self._queues.find((topic, queue_id))
        return self._reader.read(queue, offset, max_count, max_bytes, wanted)

    def get_messages_now(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        wanted: Wanted = ALL_WANTED,
    ) -> GetResult | None:
        """Return the result of ``get_messages`` if it is all in memory; None if the read would wait for the disk.

        If the system cannot tell what is in memory, the distance from the end of the log decides.
        """
        if not self._layer.sees_memory and self.is_cold(topic, queue_id, offset):
            return None
        queue = self._queues.find((topic, queue_id))
        return self._reader.read_now(queue, offset, max_count, max_bytes, wanted)

    def read_ahead(self, topic: str, queue_id: int, offset: int) -> None:
        """Ask the system to bring the next messages of a queue into memory; blocks shortly, for any thread."""
        queue = self._queues.find((topic, queue_id))
        if queue is not None:
            self._reader.read_ahead(queue, offset)

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether a message is more than ``hot_bytes`` bytes before the end of the log."""
        hot = self._settings.hot_bytes
        if self._log.visible_end - self._log.min_offset <= hot:
            return False
        queue = self._queues.find((topic, queue_id))
        if queue is None or offset >= queue.max_offset:
            return False
        return not self._reader.is_near(queue, max(offset, queue.min_offset), hot)

    def message_now(self, commit_log_offset: int, size: int) -> StoredMessage | None:
        """Return the result of ``message_at`` without waiting for the disk.

        Return None also if the disk would have to be read. If the system cannot tell what is in memory, the distance
        from the end of the log decides.
        """
        if not self._layer.sees_memory and self._log.visible_end - commit_log_offset > self._settings.hot_bytes:
            return None
        return self._reader.message_now(commit_log_offset, size)

    def head_at(self, commit_log_offset: int) -> StoredMessage | None:
        """Return the message whose record starts at the offset, without its body unless the body is small.

        Return None if no record starts there. Blocks, for any thread.
        """
        return head_at(self._log, commit_log_offset, MappedFile.read)

    def head_now(self, commit_log_offset: int) -> StoredMessage | None:
        """Return the result of ``head_at`` without waiting for the disk.

        :raises NotInMemory: the disk has to be read.
        """
        memory = self._reader.in_memory
        is_far = self._log.visible_end - commit_log_offset > self._settings.hot_bytes
        if is_far and not self._layer.sees_memory and not memory.is_fresh(commit_log_offset):
            raise NotInMemory
        return head_at(self._log, commit_log_offset, memory.read)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of the first message that a queue still has; −1 for an unknown queue."""
        queue = self._queues.find((topic, queue_id))
        return -1 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset after the last message that readers may see; 0 for an unknown queue."""
        queue = self._queues.find((topic, queue_id))
        return 0 if queue is None else self._reader.end(queue)

    def covered_end(self, topic: str, queue_id: int) -> int:
        """Return the offset of the log after the last message of a queue; −1 if it has none."""
        queue = self._queues.find((topic, queue_id))
        return -1 if queue is None else queue.covered_end()

    def next_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next appended message gets; 0 for an unknown queue.

        Messages on their way to the disk are counted.
        """
        queue = self._queues.find((topic, queue_id))
        return 0 if queue is None else queue.next_offset

    def durable_max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset after the last message known to be on disk; 0 for an unknown queue.

        With SYNC_FLUSH the result equals ``max_offset``.
        """
        queue = self._queues.find((topic, queue_id))
        if queue is None:
            return 0
        flushed = self._progress.flushed
        end = self._reader.end(queue)
        return end if flushed >= self._progress.dispatched_end else min(end, _durable_max_offset(queue, flushed))

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the time when a message was stored, in milliseconds; −1 if there is no such message."""
        queue = self._queues.find((topic, queue_id))
        return -1 if queue is None else self._reader.stored_at_ms(queue, offset)

    def earliest_stored_at_ms(self, topic: str, queue_id: int) -> int:
        """Return the time when a queue's first remaining message was stored, in milliseconds; −1 if there is none."""
        queue = self._queues.find((topic, queue_id))
        return -1 if queue is None else self._reader.stored_at_ms(queue, queue.min_offset)

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        """Return the result of ``QueueReader.offset_at_time``; 0 for an unknown queue."""
        queue = self._queues.find((topic, queue_id))
        return 0 if queue is None else self._reader.offset_at_time(queue, timestamp_ms, upper=upper)

    def queue_units(self, topic: str, queue_id: int, offset: int, count: int) -> bytes:
        """Return a consume queue's units from an offset on, only visible ones; blocks, for any thread."""
        queue = self._queues.find((topic, queue_id))
        return b"" if queue is None else queue.read_units(offset, max(min(count, self._reader.end(queue) - offset), 0))

    def extension_unit(self, topic: str, queue_id: int, tags_code: int) -> ExtensionUnit | None:
        """Return the unit of a queue's extension to which a tags code points; None if the extension has no such unit.

        ``tags_code`` is an address in the extension. Blocks.
        """
        queue = self._queues.find((topic, queue_id))
        return None if queue is None else queue.extension.unit(position_of(tags_code))

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """Return the bytes of the record that starts at an offset, if readers may see it; blocks, for any thread."""
        record = self._log.record_at(commit_log_offset, size)
        hidden_from = self._hidden_from
        if record is None or hidden_from is None or commit_log_offset + len(record) <= hidden_from:
            return record
        return None

    # --- for replicas --------------------------------------------------------------------------------------------

    @property
    def hidden_from(self) -> int | None:
        """The log offset from which on a restart hides what it found on the disk; None if it hides nothing."""
        return self._hidden_from

    @property
    def shown_end(self) -> int:
        """The log offset after the last message that readers may see."""
        return self._log.visible_end if self._hidden_from is None else self._hidden_from

    def last_record_end(self) -> int:
        """Return the log offset after the last record; a filler may follow. Blocks."""
        last = last_record(self._log.files, self.stored_end, self._log.min_offset)
        record = None if last is None else self._log.record_at(last)
        return max(self._log.min_offset, 0) if last is None or record is None else last + len(record)

    def hide_from(self, place: int) -> None:
        """Hide from readers everything after a place of the log, which is all stored; blocks.

        Parts that read their own queues must have done so before, and start when nothing is hidden any more.
        """
        self._hidden_from = place
        self._hidden = HiddenQueues(self._queues.by_name.values(), place)
        self._reader.hide(self._hidden.ends)

    def show_to(self, place: int, *, is_all: bool) -> list[ShownQueue]:
        """Show a part of what was hidden up to a place, or of all of it; return the queues with messages shown now.

        Call it again until no queue is returned: one call takes a few milliseconds, and never waits for the disk.
        """
        hidden = self._hidden
        if hidden is None:
            if is_all:
                self._hidden_from = None
            return []
        shown = hidden.show(None if is_all else place)
        if is_all and hidden.is_done:
            self._hidden_from = self._hidden = None
            self._reader.hide(None)
        else:
            self._hidden_from = hidden.shown_end
        return shown

    @property
    def durable_end(self) -> int:
        """The log offset below which everything is on disk, visible or held by a stage."""
        flushed = self._progress.flushed
        return max(flushed, self._group.stored_end) if self._settings.sync_flush else flushed

    def flush_stored(self) -> bool:
        """Bring the log to the disk up to the last stored batch, visible or not; return whether it is there; blocks.

        With ASYNC_FLUSH, this moves ``durable_end`` on over batches that a stage holds.
        """
        return self._flushing.flush_log(self._group.stored_end)

    def log_bytes(self, start: int, limit: int) -> bytes | None:
        """Return durable bytes of the log from ``start`` on: whole records of one file; blocks, for any thread.

        There are at most ``limit`` bytes, or one record; a filler counts as a record up to the end of its file. Return
        b"" if ``start`` is not below ``durable_end``; None if the log no longer has the bytes.
        """
        return log_bytes(self._log.files, start, limit, self.durable_end)

    def durable_record_at(self, offset: int) -> bytes | None:
        """Return the record that starts at an offset, visible or held by a stage; None if there is none.

        The record is on disk. Blocks; for any thread.
        """
        return durable_record(self._log.files, offset, self.durable_end)

    def copied_records(self, received: bytes) -> CopiedRecords:
        """Return the intact records at the start of bytes that continue the log; on the reactor's thread."""
        return self._copying.records(received)

    def append_copied(self, records: CopiedRecords, on_copied: OnCopied) -> None:
        """Append what ``copied_records`` returned, byte for byte.

        ``on_copied`` is called with True when all records are stored and visible, with False if some were refused: then
        the log ends before them. The next call may follow once ``max_commit_log_offset`` has reached the end of the
        records; no other message may be appended meanwhile.
        """
        self._copying.append(records, on_copied)

    def give_up_copied(self) -> None:
        """Refuse at once those records of ``append_copied`` that wait until everything before is visible."""
        self._copying.give_up()

    def begin_log_at(self, offset: int, done: Callable[[BaseException | None], None]) -> None:
        """Let a log without a record begin at an offset, where a file starts; an empty file of an earlier begin goes.

        ``done`` is called with None, or with the error that prevented it.
        """
        log, progress = self._log, self._progress
        assert log.position == log.min_offset, "the log is empty"
        if offset % log.files.file_size:
            done(StoreError(f"files of {log.files.file_size} bytes (mappedFileSizeCommitLog) do not start there"))
            return

        def begun(result: object) -> None:
            if isinstance(result, Failed):
                done(result.error)
                return
            log.move_to(offset)
            log.visible_end = log.checked_from = progress.flushed = offset
            progress.dispatched_end = progress.written_end = offset
            self._group.restart()
            done(None)

        self._in_log_thread(lambda: self._make_first_file(offset), begun)

    def _make_first_file(self, offset: int) -> None:
        with self._flushing.in_turn:
            # Noted first: a log that starts later than the checkpoint says has lost files, and so has one that ends
            # earlier, or has no file.
            self._checkpoint.cut(0, last_record=-1)
            self._checkpoint.begin_log(offset)
            self._log.files.remove_after(-1)
            self._log.files.at(offset).open(create=True)

    def record_begins(self, place: int, begin: int) -> list[int]:
        """Return where records start by which two logs are compared up to ``place``; blocks, for any thread.

        The first is the last record that ends at or before ``place``, the last one is the first record at or after
        ``begin``; there are at most ``MAX_COMPARED``. ``log_bytes(offset, 0)`` returns the bytes of each.
        """
        return record_begins(self._log.files, place, begin)

    def queues(self) -> Iterator[tuple[str, int]]:
        """Return topic and queue id of every queue that ever got a message."""
        return iter(list(self._queues.by_name))

    def queues_of(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that ever got a message, without a look at the queues of others."""
        return [queue.queue_id for queue in self._queues.of_topic(topic)]

    def retry_topics(self) -> list[str]:
        """Return the retry topics that have or had queues."""
        return self._queues.retry_topics()

    # --- figures -------------------------------------------------------------------------------------------------

    @property
    def min_commit_log_offset(self) -> int:
        """The first offset that the log still has."""
        return self._log.min_offset

    @property
    def max_commit_log_offset(self) -> int:
        """The offset after the last appended message, on disk or not."""
        return self._log.position

    @property
    def stored_end(self) -> int:
        """The offset after the last stored message.

        Messages appended from now on start at this offset or later, even if the batch that is on its way fails.
        """
        return self._log.visible_end

    @property
    def flushed_offset(self) -> int:
        """The log offset below which everything is on disk."""
        return self._progress.flushed

    @property
    def dispatch_behind_bytes(self) -> int:
        """The number of stored bytes that consumers do not see yet, because their queues could not be written."""
        return max(self._log.visible_end - self._progress.dispatched_end, 0)

    @property
    def last_stored_ms(self) -> int:
        """The store time of the newest message in milliseconds; later messages have this time or a later one."""
        return self._appender.last_stored_ms

    @property
    def refusal(self) -> str | None:
        """The reason why messages are refused now; None while messages are taken."""
        is_unsure = self._log.position > self._log.space_end
        return self._admission.refusal or (NOT_LOOKED_AT if is_unsure else None)

    @property
    def failure(self) -> str | None:
        """The reason why no message will be taken before a restart; None if the store has not failed."""
        return self._admission.failure

    @property
    def figures(self) -> StoreFigures:
        """The store's metrics."""
        return self._figures

    # --- upkeep --------------------------------------------------------------------------------------------------

    def flush(self) -> bool:
        """Bring everything visible to the disk: log, queues, index, checkpoint; blocks, for any thread.

        Return whether everything visible is on disk.
        """
        return self._flushing.flush()

    def delete_expired(self, now_ms: int, *, asked: bool = False) -> int:
        """Delete files that are older than their time, then check the free space.

        Return the number of deleted log files. Blocks. A program with a reactor calls the steps of ``deletion`` itself,
        each in its thread.
        """
        survey = self.deletion.survey(now_ms, asked=asked)()
        self.look_at_space(survey)
        count = self.deletion.detach(survey)
        if count:
            while self.deletion.remove_log_file(now_ms):
                continue
            self.deletion.remove_other_files()
            self.look_at_space(self.deletion.look())
        return count

    def _look_soon(self) -> None:
        if not self.deletion.settings.disk_measured_bytes:
            return
        self._log.look_end = NO_END  # no further look until the result is known
        self._in_log_thread(self.deletion.look, self._looked)

    def _looked(self, result: Survey | Failed) -> None:
        if isinstance(result, Failed):
            log.error("free space cannot be found out", reason=str(result.error))
        else:
            self.look_at_space(result)

    def replicas_lag(self, reason: str | None, *, too_few: bool = False) -> None:
        """Refuse messages with a reason, because too much waits for replicas; None: take them again.

        :param too_few: True if the reason is that too few brokers would have a message.
        """
        self._admission.lag_is(reason, too_few=too_few)

    def look_at_space(self, survey: Survey) -> None:
        """Refuse messages while the disk is full or queues cannot be written; take messages again afterwards."""
        if self._lock.is_held:
            space, settings = survey.space, self.deletion.settings
            reserved_bytes = self.deletion.reserved_bytes()
            no_space = refusal_reason(space, settings, reserved_bytes)
            more_bytes = headroom_bytes(space, settings, reserved_bytes) if settings.disk_measured_bytes else None
            self._log.fits(survey.log_end, more_bytes, self._group.gathering)
            if no_space is None and self._log.visible_end > self._log.look_end:
                self._look_soon()  # much was stored during the look
            self._admission.space_is(no_space or self._publication.refusal)
            if not self._publication.is_complete:
                self._publication.catch_up()
                self._admission.space_is(no_space or self._publication.refusal)

    def delete_topic(
        self,
        topic: str,
        in_thread: InThread = in_this_thread,
        done: Deleted | None = None,
        *,
        log_end: int | None = None,
    ) -> None:
        """Delete the queues of a topic; its messages stay in the log until they expire.

        The deletion counts for all messages that are stored, also for those that a stage holds: they were sent before
        it, their queues are gone, and they would come back alone at the next start. It does not count for messages on
        their way to the disk: if the disk has no room for them, messages of a topic made again take their place.

        :param in_thread: runs the blocking parts; with the default the call blocks.
        :param done: called with None when the queues are gone for good, or with the error that kept them.
        :param log_end: the offset of the log below which the topic's messages are gone, if it is known.
        :raises OSError: the queues could not be deleted, and ``done`` is None.
        """
        if log_end is None:
            log_end = max(self._log.visible_end, self._group.stored_end)
        self.deletion.delete_topic(topic, log_end, in_thread, _raise_failure if done is None else done)


def _made_files(
    layer: FileLayer, paths: StorePaths, settings: StoreSettings, clock_ms: Milliseconds, state: StoreState
) -> StoreFiles:
    log = CommitLog(
        layer,
        paths,
        settings.mapped_file_size_commit_log,
        state.figures,
        ahead_bytes=settings.file_ahead_bytes,
        batch_bytes=settings.max_unwritten_bytes,
    )
    index = KeyIndex(
        layer,
        paths,
        IndexShape(settings.max_hash_slot_num, settings.max_index_num),
        clock_ms,
        read_from=DispatchedLog(log, state.progress).messages_from,
        max_backlog=settings.max_index_backlog,
    )
    return StoreFiles(
        layer=layer,
        paths=paths,
        lock=StoreLock(layer, paths),
        log=log,
        queues=ConsumeQueues(layer, paths, settings),
        index=index,
        checkpoint=CheckpointFile(layer, paths),
        deleted_topics=DeletedTopics(layer, paths),
    )


def _raise_failure(failure: BaseException | None) -> None:
    if failure is not None:
        raise failure


def _durable_max_offset(queue: ConsumeQueue, flushed: int) -> int:
    """Return the offset after the last message that lies wholly below a commit log offset."""
    span = range(queue.min_offset, queue.max_offset)

    def is_beyond(offset: int) -> bool:
        unit = queue.unit(offset)
        return unit is not None and unit[0] + unit[1] > flushed

    return queue.min_offset + bisect_left(span, True, key=is_beyond)
