"""Deletion of expired messages and of deleted topics' queues, without the reactor waiting for a disk.

    survey      in a thread    disk space, ages of files, which go, and what the minimum of each queue is then
    detach      on the reactor from here on readers and offsets know nothing of what goes
    remove      in a thread    one commit log file a call, oldest first; then queue and index files

The checkpoint names the new start of the log before a file goes, so that a lost file does not count as a deleted file.
A kill in between leaves files that the next start lists again: deleted messages return until the next round. A commit
log file that cannot be removed keeps the later files waiting, so that no file is missing in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock

from gateway.in_thread import Failed, InThread
from gateway.settings.store import StoreSettings
from gateway.store.disk.files import DiskSpace
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.durability.store_files import StoreFiles, StoreState
from gateway.store.errors import NOT_OPENED
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.queues_away import QueuesAway
from gateway.store.space.retention import LogFileAge, Round, expired_files, headroom_bytes
from gateway.telemetry.logs import EventLog

log = EventLog("store")

Deleted = Callable[[BaseException | None], None]
"""A function that is called with None when a topic's queues are gone, or with the error that kept them."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The findings of a look at disk and files: the commit log files that go, and the minimum of queues afterwards.

    ``log_end``: the log was written at least up to this offset when the space was checked.
    """

    space: DiskSpace
    log_end: int
    files: Sequence[MappedFile] = ()
    minima: Sequence[tuple[ConsumeQueue, int]] = field(default=())


class Deletion:
    """The parts of a round of deletion; ``MessageStore.delete_expired`` does them one after the other.

    :param flush: brings log and queues to the disk; blocks.
    """

    def __init__(
        self,
        files: StoreFiles,
        state: StoreState,
        settings: StoreSettings,
        flush: Callable[[], object],
    ) -> None:
        self._flush = flush
        self._checkpoint = files.checkpoint
        self._files = files.layer
        self._paths = files.paths
        self._log = files.log
        self._queues = files.queues
        self._index = files.index
        self._progress = state.progress
        self._admission = state.admission
        self._figures = state.figures
        self.settings = settings
        self._log_files: deque[MappedFile] = deque()
        self._other_files: deque[Path] = deque()
        self._failed_ms = -settings.redelete_hanged_file_interval_ms
        self._index_min = 0  # the start of the log at the last removal of expired index files
        self._finishing = Lock()  # deletions of several topics may run in several threads
        self._unfinished: list[tuple[str, list[Path]]] = []
        self._away = QueuesAway(files.layer, files.paths)
        self.deleted_topics = files.deleted_topics
        self.keep_from: Callable[[], int | None] | None = None
        """A function for the reactor's thread that returns the commit log offset from which nothing may be deleted."""
        self.reserved_bytes: Callable[[], int] = int
        """A function for any thread that returns the number of bytes to leave for files that are not the store's."""

    # --- expired messages ----------------------------------------------------------------------------------------

    def survey(self, now_ms: int, *, asked: bool = False) -> Callable[[], Survey]:
        """Note on the reactor's thread which files may go; return a function that blocks and decides which files go.

        :param asked: True if an operator asked for the deletion: the hour of the day does not matter.
        """
        settled = min(self._progress.dispatched_end, self._progress.flushed)
        sealed = [file for file in self._log.files.list[:-1] if file.start_offset + file.size <= settled]
        keep_from = self._kept_from()
        return lambda: self._survey(sealed, keep_from, now_ms, asked)

    def _survey(self, sealed: list[MappedFile], keep_from: int | None, now_ms: int, asked: bool) -> Survey:
        look = self.look()
        space = look.space
        batch = sealed[: self.settings.delete_file_batch_max]
        count = expired_files(
            [LogFileAge(file.start_offset + file.size, self._modified_at_ms(file.path)) for file in batch],
            Round(now_ms, datetime.fromtimestamp(now_ms / 1000).hour, asked=asked),  # deleteWhen is local time
            space=space,
            settings=self.settings,
            keep_from=keep_from,
        )
        if not count:
            return look
        # Data that allows a file to go must be on disk first: outcomes of half messages, and the end of each queue.
        # If the flush finds no space for derived files, files are deleted all the same: that makes space.
        self._flush()
        if self._admission.failure is not None:
            return look
        # Units that found no space are only in memory; after a kill, only the log shows where these queues end.
        written_end = self._progress.written_end
        while count and batch[count - 1].start_offset + batch[count - 1].size > written_end:
            count -= 1
        if not count:
            return look
        log_min = batch[count - 1].start_offset + batch[count - 1].size
        minima = [(queue, minimum) for queue in self._queues if (minimum := _min_for(queue, log_min)) is not None]
        return Survey(space, look.log_end, batch[:count], minima)

    def _modified_at_ms(self, path: Path) -> int:
        try:
            return self._files.modified_at_ms(path)
        except FileNotFoundError:  # deleted by another process
            return 0

    def detach(self, survey: Survey) -> int:
        """Take the files that go out of everybody's sight; return how many commit log files go.

        Runs on the reactor's thread.
        """
        if not self.still_holds(survey):
            return 0
        self.begin_queues(survey.minima)  # first the queues: a reader must find a message at the start of each queue
        for _ in survey.files:
            self._log_files.append(self._log.files.take_first())
        return len(survey.files)

    def still_holds(self, survey: Survey) -> bool:
        """Return whether all files of the survey may still go. On the reactor's thread."""
        files, keep_from = survey.files, self._kept_from()
        if not files or self._log.files.list[: len(files)] != list(files):
            return False
        return keep_from is None or files[-1].start_offset + files[-1].size <= keep_from

    def begin_queues(self, minima: Sequence[tuple[ConsumeQueue, int]]) -> None:
        """Take deleted messages out of sight, queue by queue. On the reactor's thread.

        If there are very many queues, call this for some at a time, before ``detach`` of a survey that still holds.
        """
        for queue, minimum in minima:
            if self._queues.find((queue.topic, queue.queue_id)) is queue and queue.min_offset < minimum:
                self._queues.begins_at(queue, minimum)
                self._other_files.extend(queue.take_expired())

    def detach_queue_files(self) -> int:
        """Take all queue files that only know deleted messages out of sight; return how many.

        On the reactor's thread.
        """
        expired = self._queues.take_expired()
        self._other_files.extend(expired)
        return len(expired)

    @property
    def has_log_files(self) -> bool:
        """True if detached commit log files wait for removal."""
        return bool(self._log_files)

    @property
    def has_other_files(self) -> bool:
        """True if ``remove_other_files`` has something to do."""
        return bool(self._other_files) or self._index_min != self._log.min_offset

    def remove_log_file(self, now_ms: int) -> bool:
        """Remove the oldest detached commit log file; return whether more files can be removed now. Blocks."""
        if not self._log_files or 0 <= now_ms - self._failed_ms < self.settings.redelete_hanged_file_interval_ms:
            return False
        file = self._log_files[0]
        path = file.path
        try:
            # Noted before the deletion: a later start then knows that the missing file was deleted on purpose.
            self._checkpoint.begin_log(file.start_offset + file.size)
        except OSError as error:
            self._admission.fail(f"write or sync of {self._paths.checkpoint} failed: {error}")
            return False
        try:
            self._files.unlink(path)
        except OSError as error:
            self._failed_ms = now_ms
            log.error("commit log file cannot be deleted", path=path, error=str(error))
            return False
        try:
            self._files.fsync_directory(path.parent)
        except OSError as error:
            if error.errno not in NOT_OPENED:
                self._admission.fail(f"sync of {path.parent} failed: {error}")
                return False
            self._failed_ms = now_ms  # the sync is repeated before the next file goes
            log.error("commit log directory cannot be opened", path=path.parent, error=str(error))
            return False
        self._log_files.popleft()
        self._figures.deleted_files.value += 1
        log.info("commit log file deleted", path=path)
        return bool(self._log_files)

    def remove_other_files(self) -> None:
        """Remove detached queue files, and index files that only know deleted messages; blocks."""
        while self._other_files:
            path = self._other_files.popleft()
            try:
                self._files.unlink(path)
            except OSError as error:
                log.error("consume queue file cannot be deleted", path=path, error=str(error))
        for path in self._queues.take_expired_extensions():
            try:
                self._files.unlink(path)
            except OSError as error:
                log.error("consume queue extension file cannot be deleted", path=path, error=str(error))
        log_min = self._log.min_offset
        try:
            self._index.remove_expired(log_min)
            self._index_min = log_min
        except OSError as error:
            log.error("index file cannot be deleted", error=str(error))

    def look(self) -> Survey:
        """Check only the free space; blocks."""
        log_end = self._log.visible_end  # read first: later writes then count twice rather than never
        return Survey(self.disk_space(), log_end)

    def room_bytes(self) -> int:
        """Return how many bytes files that can be made again may take; blocks."""
        try:
            return self._files.disk_space(self._paths.root).free_bytes - self.reserved_bytes()
        except OSError:
            return 0

    def disk_space(self) -> DiskSpace:
        """Return the space of the partition with the commit log or with the queues, whichever is shorter of space.

        Blocks.
        """
        spaces = [self._files.disk_space(path) for path in (self._paths.commit_log, self._paths.root)]
        return min(spaces, key=lambda space: headroom_bytes(space, self.settings))

    def _kept_from(self) -> int | None:
        return None if self.keep_from is None else self.keep_from()

    # --- deleted topics ------------------------------------------------------------------------------------------

    def delete_topic(self, topic: str, log_end: int, in_thread: InThread, done: Deleted) -> None:
        """Delete the queues of a topic; ``done`` is called when the deletion is on disk. Call on the reactor's thread.

        The queues' directory is moved away at once, so that the topic can be made again while the old files go. After a
        crash before ``done``, either the whole topic is back, or the next start has finished its deletion.

        Deletions that did not reach the disk before are finished as well, or ``done`` gets the error that keeps them.

        :param log_end: the offset of the log below which the topic's messages are gone.
        """
        before = self.deleted_topics.offsets.get(topic)
        log_end = max(log_end, before or 0)  # a slave may have noted more
        # Noted also without a queue: messages that wait for their time or their outcome may name the topic.
        if before != log_end or self._queues.of_topic(topic):
            # Noted before the queues go: a flush without these queues then saves the note.
            self.deleted_topics.note(topic, log_end)
            try:
                away = self._move_away(topic, log_end)
            except OSError as error:
                self.deleted_topics.take_back(topic, before)
                done(error)
                return
            self._unfinished.append((topic, away))
        self.finish(in_thread, done)

    def note_deleted(self, topics: Iterable[str], log_end: int, in_thread: InThread, done: Deleted) -> None:
        """Note that the messages of topics without queues are gone below an offset of the log.

        Call on the reactor's thread. ``done`` is called when the notes are on disk.
        """
        self.deleted_topics.note_earlier(dict.fromkeys(topics, log_end))
        in_thread(self.deleted_topics.save, lambda result: done(_error_of(result)))

    def finish(self, in_thread: InThread, done: Deleted) -> None:
        """Bring the deletions of topics to the disk that are not there yet. Call on the reactor's thread."""
        if self._unfinished:
            in_thread(self._finish, lambda result: done(_error_of(result)))
        else:
            done(None)

    def _move_away(self, topic: str, log_end: int) -> list[Path]:
        away = self._queues.detach_topic(topic, lambda: self._away.move(topic, log_end))
        try:
            away += self._away.move_extension(topic)
        except OSError as error:  # harmless: a new queue of this name starts a new extension
            log.error("consume queue extension cannot be moved away", topic=topic, error=str(error))
        return away

    def _finish(self) -> None:
        with self._finishing:
            deletions = self._unfinished.copy()
            # Saved first: after that, no rebuild brings a message back, even if a crash interrupts the deletion.
            self.deleted_topics.save()
            for topic, _ in deletions:
                self._queues.journal.forget_topic(topic)  # a listed queue without files would count as lost
            directories = [self._paths.deleted, self._paths.consume_queue]
            if self._files.exists(self._paths.consume_queue_extension):
                directories.append(self._paths.consume_queue_extension)
            for directory in directories:
                self._files.fsync_directory(directory)
            del self._unfinished[: len(deletions)]
        for _, away in deletions:
            self._away.remove(away)

    def finish_interrupted(self) -> None:
        """Finish the deletions of topics that a crash interrupted; blocks. Call before the queues are loaded."""
        self.deleted_topics.note_earlier(self._away.topics())
        self.deleted_topics.save()
        self._away.remove(self._away.leftovers())
        # No directory may come back: if the log lost its end, new messages there are not of the deleted topic.
        self._files.fsync_directory(self._paths.deleted)


def _error_of(result: Failed | None) -> BaseException | None:
    return None if result is None else result.error


def _min_for(queue: ConsumeQueue, log_min: int) -> int | None:
    """Return the new minimum of a queue; None if the minimum stays, or if the queue is being deleted."""
    try:
        minimum = queue.min_for(log_min)
    except OSError:
        return None
    return minimum if minimum > queue.min_offset else None
