"""All consume queues of a store, and which of their files wait for a sync."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from threading import Lock

from gateway.store.consume_queue import ConsumeQueue, QueueFiles
from gateway.store.files import FileLayer
from gateway.store.paths import StorePaths, is_queue_name, parse_offset_name
from gateway.store.queue_ends import NOT_THERE, QueueEnds, queue_files_modified_ms
from gateway.store.store_settings import StoreSettings
from wire.disk.consume_queue import UNIT_BYTES


class ConsumeQueues:
    """Queues by (topic, queue id). Changed on the reactor's thread; ``sync`` may run in another."""

    def __init__(self, files: FileLayer, paths: StorePaths, settings: StoreSettings) -> None:
        self._files = files
        self._paths = paths
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

    def load(self, ends: QueueEnds | None = None, *, untouched: bool = False) -> list[str]:
        """Find the queues on disk and their ends; returns remarks about what does not belong there.

        :param ends: the queues of the last clean stop: those that end earlier now are ``lost``.
        :param untouched: whether they hold for the log as it is: queues whose files nobody changed are not opened.
        """
        ends = ends or QueueEnds()
        remarks: list[str] = []
        taken_over: set[str] = set()
        if untouched and ends.topics:
            self._use_file_bytes(ends.file_bytes, remarks)
            taken_over = self._take_over(ends)
        else:
            self._choose_file_bytes(remarks)
        for topic, name in self._directories(taken_over):
            if not is_queue_name(name):
                remarks.append(f"{self._directory / topic / name} is not a consume queue and was left alone")
            elif (topic, int(name)) not in self._by_name:
                remarks += self._load(self.make(topic, int(name)))
        for topic, queue_id, end in ends:
            known = self._by_name.get((topic, queue_id))
            if end > (known.max_offset if known is not None else 0):
                self.lost.add((topic, queue_id))
        return remarks

    def _take_over(self, ends: QueueEnds) -> set[str]:
        """Restore the queues whose files are as they were; the topics of which nothing else has to be looked at."""
        files, whole = self._files, set()
        directories_ms = files.modified_all(self._directory, [topic for topic, _, _ in ends.topics])
        for (topic, known_ms, queues), directory_ms in zip(ends.topics, directories_ms, strict=True):
            files_ms = queue_files_modified_ms(files, self._paths, topic, queues, ends.file_bytes)
            restored = 0
            for known, now_ms in zip(queues, files_ms, strict=True):
                if known[7] == now_ms != NOT_THERE:
                    queue = self._by_name[topic, known[0]] = ConsumeQueue(self._shared, topic, known[0])
                    queue.restore(known[1:7])
                    restored += 1
            if restored == len(queues) and directory_ms == known_ms != NOT_THERE:
                whole.add(topic)
        return whole

    def _load(self, queue: ConsumeQueue) -> list[str]:
        try:
            found = queue.load(self._files.list(queue.directory))
        except NotADirectoryError:
            del self._by_name[queue.topic, queue.queue_id]
            return [f"{queue.directory} is not a consume queue and was left alone"]
        if queue.is_damaged:
            self.lost.add((queue.topic, queue.queue_id))
        return found

    def _directories(self, without: Container[str] = ()) -> Iterator[tuple[str, str]]:
        for topic in self._files.list(self._directory):
            if topic in without:
                continue
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
            self._use_file_bytes(size, remarks)

    def _use_file_bytes(self, size: int, remarks: list[str]) -> None:
        if size != self._shared.file_bytes:
            remarks.append(
                f"consume queue files have {size} bytes, not the configured {self._shared.file_bytes}; "
                "their size is used"
            )
            self._shared.file_bytes = size

    def _file_sizes(self) -> Iterator[int]:
        for topic, name in self._directories():
            directory = self._directory / topic / name
            for file in self._names(directory) if is_queue_name(name) else ():
                if parse_offset_name(file) is None:
                    continue
                fd = self._files.open(directory / file)
                try:
                    size = self._files.size(fd)
                finally:
                    self._files.close(fd)
                if size:
                    yield size

    def _names(self, directory: Path) -> list[str]:
        try:
            return self._files.list(directory)
        except NotADirectoryError:
            return []

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

    def detach_topic(self, topic: str) -> int:
        """Forget the queues of a topic, whose files somebody else deletes; how many there were."""
        names = [name for name in self._by_name if name[0] == topic]
        for name in names:
            queue = self._by_name.pop(name)
            with self._lock:
                self._dirty.difference_update([(queue, start) for start in queue.starts])
                self._new_directories.discard(queue.directory)
            queue.let_go()
        return len(names)

    def take_expired(self) -> list[Path]:
        """Leave out the files that only know deleted messages; their paths, to be deleted."""
        return [path for queue in self for path in queue.take_expired()]

    # --- syncing -------------------------------------------------------------------------------------------------

    @property
    def has_unsynced(self) -> bool:
        """Whether there is something for ``sync`` to do."""
        return bool(self._dirty)

    def sync(self) -> None:
        """Return when units written before the call are on disk, and those erased are not; blocks, for any thread."""
        with self._lock:
            dirty, self._dirty = self._dirty, set()
            directories, self._new_directories = self._new_directories, set()
            erased, self._shared.erased = self._shared.erased, []
        dirty.update(erased)
        directories.update(queue.directory for queue, _ in erased)
        try:
            for queue, start in dirty:
                self._sync_file(queue.path(start))
            for directory in _with_parents(directories, self._directory):
                self._sync_directory(directory)
        except OSError:
            with self._lock:
                self._dirty |= dirty
                self._new_directories |= directories
            raise

    def _sync_directory(self, directory: Path) -> None:
        try:
            self._files.fsync_directory(directory)
        except FileNotFoundError:  # its topic was deleted since
            return

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
