"""All consume queues of a store, and which of their files wait for a sync."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

from gateway.store.consume_queue import ConsumeQueue, QueueFiles
from gateway.store.files import FileLayer
from gateway.store.paths import StorePaths, parse_offset_name
from gateway.store.store_settings import StoreSettings
from wire.disk.consume_queue import UNIT_BYTES


class ConsumeQueues:
    """Queues by (topic, queue id). Changed on the reactor's thread; ``sync`` may run in another."""

    def __init__(self, files: FileLayer, paths: StorePaths, settings: StoreSettings) -> None:
        self._files = files
        self._directory = paths.consume_queue
        self._shared = QueueFiles(
            files, paths.consume_queue, settings.consume_queue_file_bytes, settings.max_open_consume_queue_files
        )
        self._by_name: dict[tuple[str, int], ConsumeQueue] = {}
        self.find = self._by_name.get
        self._dirty: set[tuple[ConsumeQueue, int]] = set()
        self._new_directories: set[Path] = set()
        self.lost: set[tuple[str, int]] = set()  # found damaged when loaded; recovery rebuilds them
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._by_name.values()))

    def make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, new when there is none; nothing is on disk before its first unit."""
        queue = self._by_name.get((topic, queue_id))
        if queue is None:
            queue = self._by_name[topic, queue_id] = ConsumeQueue(self._shared, topic, queue_id)
        return queue

    def write(self, queue: ConsumeQueue, first_offset: int, units: bytes) -> None:
        """Write units and remember to sync them.

        :raises OSError: as ``ConsumeQueue.write_units``.
        """
        if self._by_name.get((queue.topic, queue.queue_id)) is not queue:
            return  # its topic was deleted while the messages were on their way
        known = len(queue.starts)
        try:
            touched = queue.write_units(first_offset, units)
        finally:
            if len(queue.starts) != known:
                with self._lock:
                    self._new_directories.add(queue.directory)
        with self._lock:
            for start in touched:
                self._dirty.add((queue, start))

    # --- opening -------------------------------------------------------------------------------------------------

    def load(self) -> list[str]:
        """Find the queues on disk and their ends; returns remarks about what does not belong there."""
        remarks: list[str] = []
        self._choose_file_bytes(remarks)
        for topic, name in self._directories():
            if not (name.isascii() and name.isdigit()):
                remarks.append(f"{self._directory / topic / name} is not a consume queue and was left alone")
                continue
            queue = self.make(topic, int(name))
            found = queue.load(self._files.list(self._directory / topic / name))
            if found and not queue.starts:
                self.lost.add((topic, queue.queue_id))
            remarks += found
        return remarks

    def _directories(self) -> Iterator[tuple[str, str]]:
        for topic in self._files.list(self._directory):
            try:
                names = self._files.list(self._directory / topic)
            except NotADirectoryError:
                yield topic, ""
                continue
            for name in names:
                yield topic, name

    def _choose_file_bytes(self, remarks: list[str]) -> None:
        """Take the size of the existing files when none has the configured one, but all one other: a broker with
        another setting may have written the directory.
        """
        configured = self._shared.file_bytes
        sizes: set[int] = set()
        for size in self._file_sizes():
            sizes.add(size)
            if size == configured or len(sizes) > 1:
                return
        if sizes and (size := sizes.pop()) % UNIT_BYTES == 0:
            remarks.append(
                f"consume queue files have {size} bytes, not the configured {configured}; their size is used"
            )
            self._shared.file_bytes = size

    def _file_sizes(self) -> Iterator[int]:
        for topic, name in self._directories():
            directory = self._directory / topic / name
            for file in self._files.list(directory) if name.isdigit() else ():
                if parse_offset_name(file) is None:
                    continue
                fd = self._files.open(directory / file)
                try:
                    size = self._files.size(fd)
                finally:
                    self._files.close(fd)
                if size:
                    yield size

    def covered_end(self) -> int:
        """The commit log offset after the last message any queue has; −1 when none has one."""
        return max((queue.covered_end() for queue in self), default=-1)

    def cut(self, commit_log_end: int) -> int:
        """Forget the units at or above a commit log offset in all queues; how many queues had some."""
        return sum(queue.cut(commit_log_end) for queue in self)

    def correct_min(self, commit_log_min: int) -> None:
        """See ``ConsumeQueue.correct_min``, for all queues."""
        for queue in self:
            queue.correct_min(commit_log_min)

    # --- removal -------------------------------------------------------------------------------------------------

    def remove_topic(self, topic: str) -> int:
        """Delete the queues of a topic; how many there were."""
        names = [name for name in self._by_name if name[0] == topic]
        for name in names:
            queue = self._by_name.pop(name)
            with self._lock:
                self._dirty.difference_update([(queue, start) for start in queue.starts])
                self._new_directories.discard(queue.directory)
            queue.clear()
            self._files.remove_directory(queue.directory)
        if names:
            self._files.remove_directory(self._directory / topic)
            self._files.fsync_directory(self._directory)
        return len(names)

    def remove_expired(self, commit_log_min: int) -> int:
        """Delete files that only know deleted messages; how many."""
        removed = 0
        for queue in self:
            queue.correct_min(commit_log_min)
            removed += queue.remove_expired()
        return removed

    # --- syncing -------------------------------------------------------------------------------------------------

    @property
    def has_unsynced(self) -> bool:
        """Whether there is something for ``sync`` to do."""
        return bool(self._dirty)

    def sync(self) -> None:
        """Return when all units written before the call are on disk; blocks, for any thread."""
        with self._lock:
            dirty, self._dirty = self._dirty, set()
            directories, self._new_directories = self._new_directories, set()
        try:
            for queue, start in dirty:
                self._sync_file(queue.path(start))
            for directory in _with_parents(directories, self._directory):
                if self._files.exists(directory):
                    self._files.fsync_directory(directory)
        except OSError:
            with self._lock:
                self._dirty |= dirty
                self._new_directories |= directories
            raise

    def _sync_file(self, path: Path) -> None:
        try:
            # A descriptor of its own: the shared one may be closed, and its number reused, meanwhile.
            fd = self._files.open(path)
        except FileNotFoundError:  # deleted since
            return
        try:
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)

    def close(self) -> None:
        """Give back all descriptors."""
        self._shared.open_files.clear()


def _with_parents(directories: Iterable[Path], top: Path) -> list[Path]:
    """The directories, their topics' directories and the one above: whoever got a new name."""
    found = set(directories)
    if found:
        found |= {directory.parent for directory in found} | {top, top.parent}
    return sorted(found)
