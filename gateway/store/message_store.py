"""The message store: commit log, consume queues and key index as one thing to append to and read from.

Passive: it has no reactor and no clock of its own. Appending, and everything that changes what readers see,
happens on the caller's one thread; blocking work is handed to ``in_thread``; reading is allowed in any thread.
What is appended becomes visible, and its callback runs, once it is as durable as ``flush_disk_type`` promises.

Upstream: ``DefaultMessageStore``, whose files these are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock

from gateway.clock import Milliseconds
from gateway.store.checkpoint import CheckpointFile, Marks
from gateway.store.commit_log import CommitLog
from gateway.store.consume_queue import ConsumeQueue
from gateway.store.consume_queues import ConsumeQueues
from gateway.store.dispatch import HIDDEN, DelayOf, Dispatch
from gateway.store.errors import DiskFull, StoreError, StoreInUse, StoreNotAccessible, WriteFailed
from gateway.store.files import FileLayer, RealFiles
from gateway.store.get_result import GetResult
from gateway.store.group_commit import GroupCommit, InThread, Soon, at_once, in_this_thread
from gateway.store.index import KeyIndex
from gateway.store.log_batch import LogBatch
from gateway.store.log_scan import LogScan
from gateway.store.paths import StorePaths
from gateway.store.put_result import Dispatched, PutResult, PutStatus
from gateway.store.queue_ends import forget_queue_ends, save_queue_ends
from gateway.store.queue_reader import AcceptsCode, AcceptsRecord, QueueReader
from gateway.store.recovery import Progress, Recovery, RecoveryReport
from gateway.store.retention import LogFileAge, expired_files, refusal_reason
from gateway.store.store_settings import StoreSettings
from gateway.telemetry.logs import EventLog
from wire.disk.index_file import IndexShape
from wire.errors import LocalError
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName
from wire.message.record import OutgoingMessage, StoredMessage, build_record

log = EventLog("store")

OnStored = Callable[[PutResult], None]
OnAllStored = Callable[[list[PutResult]], None]
Listener = Callable[[list[Dispatched]], None]

PAGE_BYTES = 4096
INDEX_SLICE = 128
"""Messages indexed in one reactor turn: more than most turns store, and no request waits for long behind it."""
LOCK_TEXT = b"lock"


class MessageStore:
    """One store directory.

    :param directory: the root; see ``paths``.
    :param delay_of: delay of a level in milliseconds, for the queues of the schedule topic.
    :param soon: runs a function at the end of this reactor turn.
    :param in_thread: runs blocking work in one thread, in order.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings,
        clock_ms: Milliseconds,
        *,
        files: FileLayer | None = None,
        delay_of: DelayOf | None = None,
        soon: Soon = at_once,
        in_thread: InThread = in_this_thread,
    ) -> None:
        self._settings = settings
        self._clock_ms = clock_ms
        self._soon = soon
        self._files = files = RealFiles() if files is None else files
        self._paths = paths = StorePaths(directory, settings.commit_log_directory)
        self._log = CommitLog(files, paths, settings.mapped_file_size_commit_log)
        self._queues = ConsumeQueues(files, paths, settings)
        self._dispatch = Dispatch(self._queues, delay_of)
        self._checkpoint = CheckpointFile(files, paths)
        self._index = KeyIndex(
            files,
            paths,
            IndexShape(settings.max_hash_slot_num, settings.max_index_num),
            clock_ms,
            read_from=self._read_from,
            max_backlog=settings.max_index_backlog,
        )
        self._reader = QueueReader(self._log)
        self._group = GroupCommit(
            sync=settings.sync_flush,
            new_batch=self._log.new_batch,
            write=self._write,
            stored=self._stored,
            failed=self._failed,
            soon=soon,
            in_thread=in_thread,
        )
        self._listeners: list[Listener] = []
        self._undispatched: list[LogBatch] = []
        self._idle_callbacks: list[Callable[[], None]] = []
        self._refusal: str | None = "the store is not open"
        self._failure: str | None = None
        self._last_stored_ms = 0
        self._dispatched_end = 0
        self._dispatched_ms = 0
        self._flushed = 0
        self._index_scheduled = False
        self._max_append_bytes = 0  # known when the file size is
        self._max_unwritten_bytes = settings.max_unwritten_bytes
        self._flush_lock = Lock()
        self._last_log_flush_ms = 0
        self._last_queue_flush_ms = 0
        self._lock_fd = -1
        self.keep_from: Callable[[], int | None] | None = None
        """Asked by retention: a commit log offset from which on nothing may be deleted yet."""

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
        except StoreError:
            self._give_back()
            raise

    def _open(self, progress: Progress | None) -> RecoveryReport:
        paths, files = self._paths, self._files
        for directory in (paths.root, paths.commit_log, paths.consume_queue, paths.index):
            files.make_directory(directory)
        self._take_lock()
        # A kill may have left files behind whose names are not on disk yet.
        for directory in {paths.commit_log, paths.commit_log.parent, paths.root}:
            files.fsync_directory(directory)
        clean = not files.exists(paths.abort)
        self._checkpoint.load()
        self._log.files.load()
        self._max_append_bytes = min(self._settings.max_record_bytes, self._log.largest_append)
        remarks = [*self._log.files.remarks, *self._queues.load()]
        report = Recovery(
            files,
            paths,
            log=self._log,
            queues=self._queues,
            dispatch=self._dispatch,
            checkpoint=self._checkpoint,
            clean=clean,
            max_copy_bytes=self._settings.max_tail_copy_bytes,
            progress=progress,
        ).run()
        self._dispatched_end = report.end_offset
        marks = self._checkpoint.marks
        if self._settings.message_index_enable:
            remarks += self._index.load(
                clean=clean,
                checkpoint_ms=self._checkpoint.times.index_stored_at_ms,
                mark=marks.index if marks is not None else None,
                log_min=self._log.min_offset,
                log_end=report.end_offset,
            )
        report.remarks[:0] = remarks
        self._group.restart()
        self._last_stored_ms = self._dispatched_ms = max(
            self._checkpoint.times.log_stored_at_ms, report.last_stored_at_ms
        )
        self._make_abort()
        # Everything recovery relied on and wrote becomes durable before the first answer is given.
        self._flushed = min(report.start_offset, report.end_offset)
        self.flush()
        if self._failure is not None:
            raise StoreError(self._failure)
        self._refusal = None
        self._check_space()
        tell = log.error if report.durable_bytes_lost else log.warning
        for remark in report.remarks:
            tell("recovery", remark=remark)
        self._build_index_soon()
        return report

    def _take_lock(self) -> None:
        self._lock_fd = self._files.open(self._paths.lock, create=True)
        if not self._files.lock(self._lock_fd):
            holder = self._files.pread(self._lock_fd, 64, len(LOCK_TEXT)).decode("ascii", "replace").strip()
            self._files.close(self._lock_fd)
            self._lock_fd = -1
            raise StoreInUse(self._paths.root, f" ({holder})" if holder else "")
        text = LOCK_TEXT + f" pid {os.getpid()}".encode()
        self._files.truncate(self._lock_fd, 0)
        self._files.pwrite(self._lock_fd, text, 0)

    def _make_abort(self) -> None:
        fd = self._files.open(self._paths.abort, create=True)
        try:
            self._files.truncate(fd, 0)
            self._files.pwrite(fd, str(os.getpid()).encode(), 0)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
        self._files.fsync_directory(self._paths.root)

    def close(self) -> None:
        """Bring everything to the disk and give the directory back; blocks.

        To be called when ``when_idle`` has come. Without a failure the next start needs no recovery.
        """
        if self._lock_fd < 0:
            return
        self._group.write_now()
        self._refusal = self._refusal or "the store is closed"
        self._dispatch_stored()
        if self.flush() and not self._undispatched:
            save_queue_ends(self._files, self._paths, self._queues)
            self._files.unlink(self._paths.abort)
            self._files.fsync_directory(self._paths.root)
        self._give_back()

    def _give_back(self) -> None:
        """Close what is open; the lock last."""
        with self._flush_lock:
            self._queues.close()
            self._checkpoint.close()
            if self._lock_fd >= 0:
                self._files.close(self._lock_fd)
                self._lock_fd = -1

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once when nothing waits for the disk any more; at once when nothing does."""
        if self._group.is_idle:
            callback()
        else:
            self._idle_callbacks.append(callback)

    # --- appending -----------------------------------------------------------------------------------------------

    def append(self, message: OutgoingMessage, on_stored: OnStored) -> None:
        """Append one message; ``on_stored`` is told when it is stored, or at once when it is refused."""
        commit_log, group = self._log, self._group
        batch = group.gathering
        position = commit_log.position
        if self._refusal is not None or position - batch.start > self._max_unwritten_bytes:
            on_stored(PutResult(PutStatus.SERVICE_NOT_AVAILABLE, message))
            return
        queue: ConsumeQueue | None = None
        queue_offset = 0
        if not message.sys_flag & HIDDEN:
            queue = self._queues.find((message.topic, message.queue_id)) or self._queues.make(
                message.topic, message.queue_id
            )
            queue_offset = queue.next_offset
        stored_at_ms = self._now_ms()
        try:
            record = build_record(message, queue_offset, position, stored_at_ms)
        except LocalError:
            on_stored(PutResult(_illegal(message), message))
            return
        size = len(record)
        if size > self._max_append_bytes:
            on_stored(PutResult(PutStatus.MESSAGE_ILLEGAL, message))
            return
        if size > commit_log.room:
            commit_log.roll(batch)
            position = commit_log.position
            record = build_record(message, queue_offset, position, stored_at_ms)
        elif not batch.writes:
            commit_log.begin_write(batch)
        result = PutResult(PutStatus.PUT_OK, message, queue, queue_offset, position, size, stored_at_ms)
        batch.buffers.append(record)
        batch.end = commit_log.position = position + size
        commit_log.room -= size
        if queue is not None:
            queue.next_offset = queue_offset + 1
        batch.results.append(result)
        batch.waiters.append((on_stored, result))
        group.wake()

    def append_all(self, messages: Sequence[OutgoingMessage], on_stored: OnAllStored) -> None:
        """Append messages of any topics as neighbours in one file, all or none of them.

        ``on_stored`` gets their results in order, once all of them are stored, or at once when refused.
        """
        commit_log, batch = self._log, self._group.gathering
        if not messages or self._refusal is not None or batch.size > self._max_unwritten_bytes:
            on_stored(_all_refused(PutStatus.SERVICE_NOT_AVAILABLE, messages))
            return
        packed = self._packed(messages, commit_log.position)
        if isinstance(packed, PutStatus):
            on_stored(_all_refused(packed, messages))
            return
        if sum(result.size for result, _ in packed) > commit_log.room:
            commit_log.roll(batch)
            packed = self._packed(messages, commit_log.position)
            assert not isinstance(packed, PutStatus), "the same messages were fine a moment ago"
        elif not batch.writes:
            commit_log.begin_write(batch)
        results = []
        for result, record in packed:
            batch.buffers.append(record)
            commit_log.position += result.size
            commit_log.room -= result.size
            if result.queue is not None:
                result.queue.next_offset = result.queue_offset + 1
            results.append(result)
        batch.end = commit_log.position
        batch.results += results
        batch.waiters.append((on_stored, results))
        self._group.wake()

    def _packed(self, messages: Sequence[OutgoingMessage], position: int) -> list[tuple[PutResult, bytes]] | PutStatus:
        """Results and records of messages that are to lie from ``position`` on; nothing is changed yet."""
        stored_at_ms = self._now_ms()
        next_offsets: dict[ConsumeQueue, int] = {}
        packed = []
        start = position
        for message in messages:
            queue = None
            queue_offset = 0
            if not message.sys_flag & HIDDEN:
                queue = self._queues.make(message.topic, message.queue_id)
                queue_offset = next_offsets.get(queue, queue.next_offset)
                next_offsets[queue] = queue_offset + 1
            try:
                record = build_record(message, queue_offset, position, stored_at_ms)
            except LocalError:
                return _illegal(message)
            size = len(record)
            if size > self._max_append_bytes:
                return PutStatus.MESSAGE_ILLEGAL
            result = PutResult(PutStatus.PUT_OK, message, queue, queue_offset, position, size, stored_at_ms)
            packed.append((result, record))
            position += size
        if position - start > self._log.largest_append:
            return PutStatus.MESSAGE_ILLEGAL
        return packed

    def _now_ms(self) -> int:
        """Store times never fall, so that a queue can be searched by time; a clock set back is waited out."""
        now_ms = self._clock_ms()
        if now_ms < self._last_stored_ms:
            return self._last_stored_ms
        self._last_stored_ms = now_ms
        return now_ms

    # --- the way of a batch --------------------------------------------------------------------------------------

    def _write(self, batch: LogBatch) -> None:
        if self._failure is not None:  # a timed flush failed since these were gathered
            raise WriteFailed(self._failure)
        self._log.write(batch, sync=self._settings.sync_flush)

    def _stored(self, batch: LogBatch) -> None:
        if self._settings.sync_flush:
            # Before it is visible: a flush in another thread must not find it not durable and move this mark too.
            self._flushed = batch.end
        self._log.visible_end = batch.end
        if self._settings.sync_flush:
            self._note_durable(batch)
        self._undispatched.append(batch)
        self._dispatch_stored()
        self._answer(batch)

    def _note_durable(self, batch: LogBatch) -> None:
        try:
            self._checkpoint.log_is_durable(batch.end, batch.results[-1].stored_at_ms)
        except OSError as error:
            # An older mark only makes recovery look at more; the batch itself is on disk.
            log.error("checkpoint cannot be written", error=str(error))

    def _dispatch_stored(self) -> None:
        """Make stored batches visible, in order; a disk that has no room for the queues is tried again."""
        while self._undispatched:
            batch = self._undispatched[0]
            try:
                self._dispatch.write(batch.results)
            except OSError as error:
                log.error("consume queues cannot be written", error=str(error), waiting=len(self._undispatched))
                return
            del self._undispatched[0]
            self._dispatched_end = batch.end
            self._dispatched_ms = batch.results[-1].stored_at_ms
            if self._settings.message_index_enable:
                self._index.offer(batch.results)
            self._tell(batch)
        self._build_index_soon()

    def _tell(self, batch: LogBatch) -> None:
        for listener in self._listeners:
            try:
                listener(batch.results)
            except Exception as error:  # noqa: BLE001 - a failing listener must not keep the senders' answers
                log.error("listener failed", failure=error)

    def _answer(self, batch: LogBatch) -> None:
        for callback, result in batch.waiters:
            try:
                callback(result)
            except Exception as error:  # noqa: BLE001 - one sender's failure must not keep the others' answers
                log.error("callback failed", failure=error)
        if self._idle_callbacks and self._group.is_idle:
            waiting, self._idle_callbacks = self._idle_callbacks, []
            for idle in waiting:
                idle()

    def _failed(self, batch: LogBatch, reason: BaseException) -> None:
        """A batch did not reach the disk: what was gathered behind it has to go too."""
        if isinstance(reason, DiskFull):
            log.error("disk full", error=str(reason), messages=len(batch.results))
            self._refusal = str(reason)
            status = PutStatus.SERVICE_NOT_AVAILABLE
        else:
            self._fail(reason)
            status = PutStatus.UNKNOWN_ERROR
        self._log.move_to(batch.start)
        gathered = self._group.restart()
        for result in [*batch.results, *gathered.results]:
            queue = result.queue
            if queue is not None and result.queue_offset < queue.next_offset:
                queue.next_offset = result.queue_offset
        for refused, what in ((batch, status), (gathered, PutStatus.SERVICE_NOT_AVAILABLE)):
            for result in refused.results:
                result.status = what
                result.queue_offset = result.commit_log_offset = -1
            self._answer(refused)

    def _fail(self, reason: BaseException) -> None:
        """From now on nothing is acknowledged any more; only a restart, with its recovery, helps."""
        if self._failure is None:
            self._failure = self._refusal = f"the store failed: {reason}; restart the broker to recover"
            log.error("store failed", error=str(reason), consequence="no message is taken until a restart")

    # --- reading -------------------------------------------------------------------------------------------------

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accepts: AcceptsCode | None = None,
        accepts_record: AcceptsRecord | None = None,
    ) -> GetResult:
        """Records of a queue from an offset on; see ``QueueReader.read``."""
        queue = self._queues.find((topic, queue_id))
        return self._reader.read(queue, offset, max_count, max_bytes, accepts, accepts_record)

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message lies so far behind the end of the log that reading it may wait for the disk."""
        end, hot = self._log.visible_end, self._settings.hot_bytes
        if end - self._log.min_offset <= hot:
            return False
        queue = self._queues.find((topic, queue_id))
        if queue is None or offset >= queue.max_offset:
            return False
        unit = queue.unit(max(offset, queue.min_offset))
        return unit is not None and end - unit[0] > hot

    def message_at(self, commit_log_offset: int, size: int | None = None) -> StoredMessage | None:
        """The message whose record starts there; None when there is none."""
        return self._log.message_at(commit_log_offset, size)

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """The bytes of the record that starts there; None when there is none."""
        return self._log.record_at(commit_log_offset, size)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the first message a queue still has; −1 for an unknown queue."""
        queue = self._queues.find((topic, queue_id))
        return -1 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset after the last message readers may see; 0 for an unknown queue."""
        queue = self._queues.find((topic, queue_id))
        return 0 if queue is None else queue.max_offset

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored; −1 when there is none."""
        queue = self._queues.find((topic, queue_id))
        return -1 if queue is None else self._reader.stored_at_ms(queue, offset)

    def earliest_stored_at_ms(self, topic: str, queue_id: int) -> int:
        """When the first message a queue still has was stored; −1 when there is none."""
        queue = self._queues.find((topic, queue_id))
        return -1 if queue is None else self._reader.stored_at_ms(queue, queue.min_offset)

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        """See ``QueueReader.offset_at_time``; 0 for an unknown queue."""
        queue = self._queues.find((topic, queue_id))
        return 0 if queue is None else self._reader.offset_at_time(queue, timestamp_ms, upper=upper)

    def query_by_key(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[StoredMessage]:
        """The newest messages of a topic that have a key, stored in a time range; blocks, for any thread."""
        found: list[StoredMessage] = []
        for offset in self._index.find(topic, key, begin_ms, end_ms):
            message = self._log.message_at(offset)
            if (
                message is not None
                and message.topic == topic
                and begin_ms <= message.stored_at_ms <= end_ms
                and _has_key(message, key)
            ):
                found.append(message)
                if len(found) >= max_count:
                    break
        return found

    def queues(self) -> Iterator[tuple[str, int]]:
        """Topic and queue id of every queue that ever got a message."""
        return iter([(queue.topic, queue.queue_id) for queue in self._queues])

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` of every batch that becomes visible, in order."""
        self._listeners.append(listener)

    def delete_topic(self, topic: str) -> None:
        """Delete the queues of a topic; its messages stay in the log until they expire."""
        if any(queue.topic == topic for queue in self._queues):
            # First: a queue that is listed and gone is taken for lost, and rebuilt.
            forget_queue_ends(self._files, self._paths)
            self._queues.remove_topic(topic)

    # --- figures -------------------------------------------------------------------------------------------------

    @property
    def min_commit_log_offset(self) -> int:
        """The first offset the log still has."""
        return self._log.min_offset

    @property
    def max_commit_log_offset(self) -> int:
        """The offset after the last message that was appended, whether on disk or not."""
        return self._log.position

    @property
    def flushed_offset(self) -> int:
        """Everything below this offset of the log is on disk."""
        return self._flushed

    @property
    def refusal(self) -> str | None:
        """Why nothing is taken now, or None."""
        return self._refusal

    # --- upkeep --------------------------------------------------------------------------------------------------

    def flush_due(self, now_ms: int) -> bool:
        """Flush when the intervals say so; blocks, to be called in a thread every few hundred milliseconds."""
        settings = self._settings
        behind = self._dispatched_end - self._flushed
        thorough = now_ms - self._last_log_flush_ms >= settings.flush_commit_log_thorough_interval_ms
        log_due = behind >= settings.flush_commit_log_least_pages * PAGE_BYTES or (behind > 0 and thorough)
        queues_due = now_ms - self._last_queue_flush_ms >= settings.flush_interval_consume_queue_ms
        if not log_due and not (queues_due and self._has_unsaved):
            return False
        self._last_log_flush_ms = now_ms
        if queues_due:
            self._last_queue_flush_ms = now_ms
            self.flush()
        else:
            with self._flush_lock:
                self._flush_log(self._log.visible_end)
        return True

    @property
    def _has_unsaved(self) -> bool:
        marks = self._checkpoint.marks
        return marks is None or marks.queues != self._dispatched_end or marks.index.scanned != self._index.scanned

    def flush(self) -> bool:
        """Bring everything visible to the disk: log, queues, index, checkpoint; blocks, for any thread.

        Whether all of it is there.
        """
        with self._flush_lock:
            if self._failure is not None or self._lock_fd < 0:
                return False
            # In this order, against that of the thread that moves them on: what is indexed was dispatched, what was
            # dispatched is visible. No mark may point beyond the log that is made durable below.
            index = self._index.snapshot()
            stored_ms = self._dispatched_ms
            end = self._dispatched_end
            visible = self._log.visible_end
            if not self._flush_log(visible):
                return False
            try:
                self._queues.sync()
                self._index.sync(index)
                self._checkpoint.save(
                    Marks(durable=visible, queues=end, index=index.mark),
                    log_stored_at_ms=stored_ms,
                    queues_stored_at_ms=stored_ms,
                )
            except OSError as error:
                # Derived data: the next flush tries again, or the next start rebuilds it from the checkpoint before.
                self._index.give_back(index)
                log.error("flush of queues and index failed", error=str(error))
                return False
            return True

    def _flush_log(self, end: int) -> bool:
        if end <= self._flushed:
            return True
        try:
            self._log.sync_range(self._flushed, end)
        except WriteFailed as error:
            self._fail(error)
            return False
        self._flushed = end
        return True

    def delete_expired(self, now_ms: int, *, asked: bool = False) -> int:
        """Delete what is older than its time and see whether there is space; how many log files went."""
        self._check_space()
        if self._undispatched:
            self._dispatch_stored()
        files = self._log.files
        settled = min(self._dispatched_end, self._flushed)  # nothing below is on its way to the disk any more
        sealed = [file for file in files.list[:-1] if file.start_offset + file.size <= settled]
        ages = [LogFileAge(file.start_offset + file.size, self._files.modified_at_ms(file.path)) for file in sealed]
        count = expired_files(
            ages,
            now_ms=now_ms,
            hour=datetime.fromtimestamp(now_ms / 1000).hour,  # deleteWhen is local time
            space=self._files.disk_space(self._paths.commit_log),
            settings=self._settings,
            keep_from=None if self.keep_from is None else self.keep_from(),
            asked=asked,
        )
        for _ in range(count):
            removed = files.remove_first()
            log.info("commit log file deleted", path=removed.path)
        if count:
            self._queues.remove_expired(self._log.min_offset)
            self._index.remove_expired(self._log.min_offset)
            self._check_space()
        return count

    def _check_space(self) -> None:
        """Refuse messages while the disk is full, take them again when it is not."""
        if self._failure is not None or self._lock_fd < 0:
            return
        reason = refusal_reason(self._files.disk_space(self._paths.commit_log), self._settings)
        if reason != self._refusal:
            if reason is None:
                log.info("messages are taken again", before=self._refusal)
            elif self._refusal is None:
                log.error("messages are refused", reason=reason)
            self._refusal = self._failure or reason

    def _build_index_soon(self) -> None:
        if not self._index_scheduled and self._settings.message_index_enable and self._index.backlog:
            self._index_scheduled = True
            self._soon(self._build_index)

    def _build_index(self) -> None:
        self._index_scheduled = False
        try:
            built = self._index.build(INDEX_SLICE)
        except OSError as error:
            log.error("key index cannot be written", error=str(error))
            return
        if built:
            self._build_index_soon()

    def _read_from(self, offset: int) -> Iterator[StoredMessage]:
        """The messages of the log from an offset on, as far as they are dispatched."""
        start = max(offset, self._log.min_offset)
        return iter(LogScan(self._log.files, start, self._dispatched_end, check_crc=False))


def _illegal(message: OutgoingMessage) -> PutStatus:
    too_long = len(message.properties) > MAX_PROPERTIES_BYTES
    return PutStatus.PROPERTIES_SIZE_EXCEEDED if too_long else PutStatus.MESSAGE_ILLEGAL


def _all_refused(status: PutStatus, messages: Sequence[OutgoingMessage]) -> list[PutResult]:
    return [PutResult(status, message) for message in messages]


def _has_key(message: StoredMessage, key: str) -> bool:
    properties = message.property_map
    return properties.get(PropertyName.UNIQ_KEY) == key or key in properties.get(PropertyName.KEYS, "").split(" ")
