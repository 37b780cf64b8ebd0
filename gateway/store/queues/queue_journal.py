"""The writer of the list of ``queue_ends``: a line for changed queues with every flush, the whole list now and then.

A line is written before the checkpoint says that the queues are on disk up to the line's end of the log. After a kill,
therefore, only queues that changed since then have to be checked. The line is not synced: after a power failure the
list only serves to notice lost queues, and an older list is good enough for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.queues.queue_ends import KnownTopic, QueueEnds, build_head, build_line, build_list, parse_list

MIN_GROWTH_BYTES = 4 * 1024 * 1024
"""The list is rewritten when it has doubled, but not before it has grown by this many bytes."""
MAX_BYTES = 256 << 20
"""The largest list in bytes that is read. Without a list nothing is known; the list of a million queues has 50 MB."""

Topics = Callable[[], Sequence[KnownTopic]]


class QueueJournal:
    """The file with the list; any thread may write, one at a time."""

    def __init__(self, files: FileLayer, paths: StorePaths) -> None:
        self._files = files
        self._paths = paths
        self._lock = Lock()
        self._fd = -1
        self._size = 0
        self._limit = 0
        self._log_end = -1
        self._system_run = ""
        self.is_current = False
        """True if lines may be added, because the file is valid; otherwise the next list replaces the file."""

    def load(self) -> QueueEnds:
        """Read the journal's file."""
        if not self._files.exists(self._paths.queue_ends):
            return QueueEnds()
        fd = self._files.open(self._paths.queue_ends)
        try:
            size = self._files.size(fd)
            data = self._files.pread(fd, size, 0) if size <= MAX_BYTES else b""
        finally:
            self._files.close(fd)
        return parse_list(data)

    def go_on(self, ends: QueueEnds) -> None:
        """Add lines to the loaded list, because its content is valid for the store as it is.

        :raises OSError: the file cannot be opened.
        """
        fd = self._files.open(self._paths.queue_ends)
        try:
            if self._files.size(fd) != ends.bytes_read:
                self._files.truncate(fd, ends.bytes_read)
        except OSError:
            self._files.close(fd)
            raise
        self._use(fd, ends.bytes_read, ends)

    def _use(self, fd: int, size: int, ends: QueueEnds) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
        self._fd, self._size, self._log_end, self._system_run = fd, size, ends.log_end, ends.system_run
        self._limit = size + max(size, MIN_GROWTH_BYTES)
        self.is_current = True

    def add(self, log_end: int, topics: Topics) -> None:
        """Add a line: the named queues are on disk up to ``log_end``, and all other queues are unchanged.

        :param topics: called while no deletion of a topic can come in between.
        :raises OSError: the line could not be written; may be repeated.
        """
        with self._lock:
            changed, system_run = topics(), self._files.system_run()
            if not changed and log_end == self._log_end and system_run == self._system_run:
                return
            self._append(build_line(log_end, system_run, changed))
            self._log_end, self._system_run = log_end, system_run
            if self._size > self._limit:
                self._write(self.load())

    def forget_topic(self, topic: str) -> None:
        """Note that a topic was deleted on purpose, so that its queues do not count as lost; on disk at return.

        :raises OSError: the note could not be written.
        """
        with self._lock:
            if self.is_current:
                self._append(build_line(self._log_end, self._files.system_run(), (), (topic,)))
                self._files.fdatasync(self._fd)
            else:
                self._files.unlink(self._paths.queue_ends)
                self._files.fsync_directory(self._paths.root)

    def _append(self, line: bytes) -> None:
        self._files.pwrite(self._fd, line, self._size)
        self._size += len(line)

    def write_all(self, log_end: int, file_bytes: int, topics: Topics) -> None:
        """Replace the list durably.

        :raises OSError: the file could not be replaced.
        """
        with self._lock:
            self._write(QueueEnds(topics(), log_end, file_bytes, self._files.system_run()))

    def _write(self, ends: QueueEnds) -> None:
        files, target = self._files, self._paths.queue_ends
        temporary = target.with_suffix(".new")
        files.unlink(temporary)
        fd, size = files.open(temporary, create=True), 0
        try:
            for line in build_list(ends):
                files.pwrite(fd, line, size)
                size += len(line)
            files.fdatasync(fd)
            files.rename(temporary, target)
        except OSError:
            files.close(fd)
            raise
        self._use(fd, size, ends)
        files.fsync_directory(self._paths.root)

    def begin(self) -> None:
        """Write durably a list that names no queue: from now on the directory is the gateway's.

        :raises OSError: the list could not be written.
        """
        with self._lock:
            fd = self._files.open(self._paths.queue_ends, create=True)
            try:
                self._files.truncate(fd, 0)
                self._files.pwrite(fd, build_head(0), 0)
                self._files.fdatasync(fd)
            finally:
                self._files.close(fd)
        self._files.fsync_directory(self._paths.root)

    def sync(self) -> None:
        """Return when all lines are on disk; blocks."""
        with self._lock:
            if self._fd >= 0:
                self._files.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._fd >= 0:
                self._files.close(self._fd)
                self._fd, self.is_current = -1, False
