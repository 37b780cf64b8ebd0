"""All consume queues of a store, and which of their files wait for a sync."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from gateway.settings.store import StoreSettings
from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths, is_queue_name, is_topic_name, parse_offset_name, printable
from gateway.store.disk.small_files import file_size
from gateway.store.queues.consume_queue import ConsumeQueue, QueueFiles
from gateway.store.queues.queue_ends import NOT_THERE, KnownTopic, QueueEnds, queue_files_modified
from gateway.store.queues.queue_journal import QueueJournal
from wire.disk.consume_queue import UNIT, UNIT_BYTES
from wire.disk.queue_extension import ExtensionUnit
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

ExtendedMessage: TypeAlias = tuple[int, int, ExtensionUnit]
"""The message's offset in the log, its size in bytes, and the data that the queue's extension keeps of it."""


MANY_IDS: Final = 1 << 62
"""The end of the ids of a topic that has a queue with a negative id."""


class ConsumeQueues:
    """The queues by (topic, queue id). The reactor's thread changes them; other threads write held units and sync."""

    def __init__(self, files: FileLayer, paths: StorePaths, settings: StoreSettings) -> None:
        self._files = files
        self._paths = paths
        self._directory = paths.consume_queue
        self._shared = QueueFiles(
            files,
            paths.consume_queue,
            settings.consume_queue_file_bytes,
            settings.max_open_consume_queue_files,
            settings.mapped_file_size_consume_queue_ext,
        )
        self.by_name: dict[tuple[str, int], ConsumeQueue] = {}
        self.find = self.by_name.get
        self._id_ends: dict[str, int] = {}  # for each topic the end of its queue ids, of which few are free
        self._retry_topics: dict[str, None] = {}
        self._last_topic = ""
        # Dictionaries without values instead of sets: their order, and so the state after a crash, is reproducible.
        self._holding: dict[ConsumeQueue, None] = {}
        self._dirty: dict[tuple[ConsumeQueue, int], None] = {}
        self._changed: dict[ConsumeQueue, None] = {}  # changed in memory only, and not listed yet
        self._unlisted: dict[ConsumeQueue, None] = {}  # changed on disk, perhaps only in part, and not listed yet
        self._new_directories: set[Path] = set()
        self._found: dict[ConsumeQueue, None] = {}  # a killed process may have left their names unsynced
        self.journal = QueueJournal(files, paths)
        self.lost: dict[tuple[str, int], int] = {}
        """The queues that recovery rebuilds, because they were damaged or shorter than listed: the listed end, or 0."""
        self._lock = Lock()
        self._held_lock = Lock()  # for writing the held units of a queue
        self._detaching = Lock()  # held while a deletion waits for ``_held_lock``, so that no other write passes it

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self.by_name.values()))

    def make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue, made new if there is none; nothing is on disk before its first unit."""
        queue = self.by_name.get((topic, queue_id))
        if queue is None:
            # Each message brings a text of its own; the queues of a topic, which are mostly made together, share one.
            topic = self._last_topic if topic == self._last_topic else topic
            self._last_topic = topic
            queue = self.by_name[topic, queue_id] = ConsumeQueue(self._shared, topic, queue_id)
            self._note_id(topic, queue_id)
        return queue

    def _note_id(self, topic: str, queue_id: int) -> None:
        """Note that a topic has a queue, so that its queues are found without a look at all others."""
        known = self._id_ends.get(topic, 0)
        if not known and topic.startswith(RETRY_TOPIC_PREFIX):
            self._retry_topics[topic] = None
        end = queue_id + 1 if queue_id >= 0 else MANY_IDS
        if end > known:
            self._id_ends[topic] = end

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return the queues of a topic, at the cost of the topic: there may be a million others."""
        end = self._id_ends.get(topic, 0)
        if end > len(self.by_name):  # a strange directory has strange ids
            return [queue for queue in self if queue.topic == topic]
        found = [self.by_name.get((topic, queue_id)) for queue_id in range(end)]
        return [queue for queue in found if queue is not None]

    def retry_topics(self) -> list[str]:
        """Return the retry topics that have or had queues."""
        return list(self._retry_topics)

    def add(self, queue: ConsumeQueue, first_offset: int, units: bytes) -> None:
        """Show units of new messages, unless they are shown already; ``write_held`` writes them."""
        if self._lacks(queue, first_offset):
            queue.hold_units(units)
            self._holding[queue] = None

    def _lacks(self, queue: ConsumeQueue, first_offset: int) -> bool:
        """Return whether a queue ends at an offset; False if its units are shown already, or its topic was deleted."""
        if self.by_name.get((queue.topic, queue.queue_id)) is not queue:
            return False
        assert first_offset <= queue.max_offset, "offsets are given out one after the other"
        return first_offset == queue.max_offset

    @property
    def has_held(self) -> bool:
        """True if ``write_held`` has units to write."""
        return bool(self._holding)

    def write_held(self) -> None:
        """Write all units that were shown before the call; blocks, for any thread, one at a time.

        Queues that show more units meanwhile wait for the next call, so that each call ends under any load.

        :raises OSError: the first error, raised after all other queues were written; may be repeated.
        """
        failed: OSError | None = None
        for queue in list(self._holding):
            # Removed before the write: units that arrive during the write add the queue again.
            del self._holding[queue]
            try:
                self._write_held_of(queue)
            except OSError as error:
                self._holding[queue] = None
                failed = failed or error
        if failed is not None:
            raise failed

    def _write_held_of(self, queue: ConsumeQueue) -> None:
        with self._detaching:
            pass
        with self._held_lock:
            if self.by_name.get((queue.topic, queue.queue_id)) is queue:  # its topic was not deleted meanwhile
                self._note(queue, queue.write_held)

    def write(self, queue: ConsumeQueue, first_offset: int, units: bytes) -> None:
        """Write units of a queue that holds none, and remember to sync them.

        :raises OSError: as ``ConsumeQueue.write_units``.
        """
        self._note(queue, lambda: queue.write_units(first_offset, units))

    def _note(self, queue: ConsumeQueue, write: Callable[[], list[int]]) -> None:
        """Call ``write``, and remember to sync the files that it wrote and made."""
        last = queue.starts[-1:]
        try:
            touched = write()
        finally:
            if queue.starts[-1:] != last:
                with self._lock:
                    self._new_directories.add(queue.directory)
        for start in touched:
            self._note_written(queue, start)

    def _note_written(self, queue: ConsumeQueue, start: int) -> None:
        """Remember to sync a file.

        A file that is noted already is synced after the write, even if a sync takes the note now. With the first file
        of a queue that was found on disk, the names of the queue's files and directories are synced, too.
        """
        if (queue, start) not in self._dirty:
            with self._lock:
                self._dirty[queue, start] = None
                if queue in self._found:
                    del self._found[queue]
                    self._new_directories.add(queue.directory)

    def write_extended(self, queue: ConsumeQueue, first_offset: int, messages: Sequence[ExtendedMessage]) -> None:
        """Do the work of ``add`` for units whose tags codes are in the queue's extension.

        :raises OSError: the end of the extension cannot be found out; may be repeated.
        """
        if not self._lacks(queue, first_offset):
            return
        codes = queue.extension.hold([kept for _, _, kept in messages], queue)
        units = [UNIT.pack(position, size, code) for (position, size, _), code in zip(messages, codes, strict=True)]
        self.add(queue, first_offset, b"".join(units))

    def correct(self, queue: ConsumeQueue, offset: int, unit: bytes) -> None:
        """Replace one unit and remember to sync it; for any thread.

        :raises OSError: as ``ConsumeQueue.correct_unit``.
        """
        self._write_held_of(queue)
        self._note_written(queue, queue.correct_unit(offset, unit))

    def begin(self, queue: ConsumeQueue, offset: int) -> None:
        """Let a queue without files go on at an offset, and remember to sync its first file.

        :raises OSError: as ``ConsumeQueue.begin_at``.
        """
        start = queue.begin_at(offset)
        with self._lock:
            self._new_directories.add(queue.directory)
            self._dirty[queue, start] = None

    # --- opening -------------------------------------------------------------------------------------------------

    def load(self, ends: QueueEnds | None = None, *, untouched: bool = False) -> list[str]:
        """Find the queues on disk and their ends; return remarks about files that do not belong there.

        :param ends: the queues as they were listed: queues that now end earlier are ``lost``.
        :param untouched: True if the list is valid for the log as it is: queues with unchanged files are then not
            opened.
        """
        ends = ends or QueueEnds()
        remarks: list[str] = []
        taken_over: dict[str, list[str]] = {}
        if untouched:
            self.journal.go_on(ends)
        if untouched and ends.topics:
            self._use_file_bytes(ends.file_bytes, remarks)
            taken_over = self._take_over(ends)
        else:
            self._choose_file_bytes(remarks)
        for topic, name in self._directories(taken_over):
            if not is_queue_name(name):
                path = printable(self._directory / topic / name)
                remarks.append(f"{path} is not a consume queue and was left alone")
            elif (topic, int(name)) not in self.by_name:
                remarks += self._load(self.make(topic, int(name)))
        for topic, queue_id, end in ends:
            known = self.by_name.get((topic, queue_id))
            if end > (known.max_offset if known is not None else 0):
                self.lost[topic, queue_id] = end
        return remarks

    def _take_over(self, ends: QueueEnds) -> dict[str, list[str]]:
        """Restore the queues whose files have not changed.

        Return, for each topic that got no other queues, the names of its changed queues.
        """
        files, shared, by_name = self._files, self._shared, self.by_name
        changed: dict[str, list[str]] = {}
        directories_ns = files.modified_all(self._directory, [topic for topic, _, _ in ends.topics])
        named = ((topic, queues) for topic, _, queues in ends.topics)
        files_ns = iter(queue_files_modified(files, self._paths, named, ends.file_bytes))
        for (topic, known_ns, queues), directory_ns in zip(ends.topics, directories_ns, strict=True):
            others = []
            for known in queues:
                if known[7] == next(files_ns) != NOT_THERE:
                    queue = by_name[topic, known[0]] = ConsumeQueue(shared, topic, known[0])
                    queue.restore(known)
                    self._note_id(topic, known[0])
                else:
                    others.append(str(known[0]))
            if directory_ns == known_ns != NOT_THERE:
                changed[topic] = others
        return changed

    def _load(self, queue: ConsumeQueue) -> list[str]:
        try:
            found = queue.load(self._files.list(queue.directory))
        except NotADirectoryError:
            del self.by_name[queue.topic, queue.queue_id]
            return [f"{queue.directory} is not a consume queue and was left alone"]
        self._changed[queue] = None
        self._found[queue] = None
        if queue.is_damaged:
            self.lost[queue.topic, queue.queue_id] = 0
        return found

    def _directories(self, known: Mapping[str, list[str]] | None = None) -> Iterator[tuple[str, str]]:
        """Yield (topic, name) of all queues; for a topic in ``known``, only the names given there."""
        known = known or {}
        for topic in self._files.list(self._directory):
            if not is_topic_name(topic):
                yield topic, ""
                continue
            try:
                names = known[topic] if topic in known else self._files.list(self._directory / topic)
            except NotADirectoryError:
                yield topic, ""
                continue
            for name in names:
                yield topic, name

    def _choose_file_bytes(self, remarks: list[str]) -> None:
        """Use the size of the existing files if no file has the configured size and all files have one size.

        A broker with another setting may have written the directory.
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
                if size := file_size(self._files, directory / file):
                    yield size

    def _names(self, directory: Path) -> list[str]:
        try:
            return self._files.list(directory)
        except NotADirectoryError:
            return []

    def covered_end(self) -> int:
        """Return the commit log offset after the last message that any queue has; −1 if no queue has one."""
        return max((queue.covered_end() for queue in self), default=-1)

    def cut(self, commit_log_end: int) -> int:
        """Forget the units at or above a commit log offset in all queues; return how many queues had such units."""
        return sum(queue.cut(commit_log_end) for queue in self)

    def correct_min(self, commit_log_min: int) -> None:
        """Call ``ConsumeQueue.correct_min`` for all queues."""
        for queue in self:
            queue.correct_min(commit_log_min)

    # --- removal -------------------------------------------------------------------------------------------------

    def begins_at(self, queue: ConsumeQueue, minimum: int) -> None:
        """Note that the messages of a queue below an offset are deleted."""
        queue.min_offset = minimum
        with self._lock:
            self._changed[queue] = None

    def forget(self, name: tuple[str, int]) -> None:
        """Remove what is left of a deleted topic's queue, and replace the list of queues at the next flush."""
        self.journal.is_current = False
        queue = self.by_name.pop(name, None)
        if queue is not None:
            self._found.pop(queue, None)
            queue.clear()

    def detach_topic(self, topic: str, move: Callable[[], list[Path]]) -> list[Path]:
        """Forget the queues of a topic after ``move`` has moved their files away; return its result.

        No held unit is written meanwhile: a file made between the two steps would be left behind.

        :raises OSError: ``move`` failed, and nothing was forgotten.
        """
        with self._detaching, self._held_lock:
            away = move()
            for queue in self.of_topic(topic):
                del self.by_name[queue.topic, queue.queue_id]
                with self._lock:
                    for start in queue.starts:
                        self._dirty.pop((queue, start), None)
                    self._new_directories.discard(queue.directory)
                    self._found.pop(queue, None)
                queue.let_go()
            self._id_ends.pop(topic, None)
            self._retry_topics.pop(topic, None)
        return away

    def take_expired(self) -> list[Path]:
        """Leave out the files that only know deleted messages; return their paths for deletion."""
        return [path for queue in self for path in queue.take_expired()]

    def take_expired_extensions(self) -> list[Path]:
        """Leave out the extension files that only know deleted messages; return their paths. Blocks, for any thread."""
        directory = self._paths.consume_queue_extension
        names = [(topic, name) for topic in self._files.list(directory) for name in self._names(directory / topic)]
        queues = [self.find((topic, int(name))) for topic, name in names if is_queue_name(name)]
        return [path for queue in queues if queue is not None for path in queue.take_expired_extension()]

    # --- syncing -------------------------------------------------------------------------------------------------

    @property
    def unsynced_files(self) -> int:
        """The number of files that ``sync`` has to bring to the disk."""
        return len(self._dirty) + len(self._shared.erased)

    def sync(self) -> None:
        """Return when units written before the call are on disk, and erased units are gone; blocks, for any thread.

        Held units are not written by this method.
        """
        with self._lock:
            dirty, self._dirty = self._dirty, {}
            extensions = self._shared.take_extended()
            directories, self._new_directories = self._new_directories, set()
            erased, self._shared.erased = self._shared.erased, []
            removed, self._shared.removed = self._shared.removed, []
            changed, self._changed = self._changed, {}
        dirty.update(dict.fromkeys(erased))
        changed.update(dict.fromkeys(removed))
        directories.update(queue.directory for queue in removed)
        directories.update(path.parent for path in extensions)
        try:
            # Extensions are synced before the units that lead there: after a crash, units on disk then have their data.
            for path in extensions:
                self._sync_file(path)
            for queue, start in dirty:
                self._sync_file(queue.path(start))
            for directory in _with_parents(directories, self._directory.parent):
                self._sync_directory(directory)
        except OSError:
            for path in extensions:
                self._shared.note_extension(path)
            with self._lock:
                self._dirty |= dirty
                self._new_directories |= directories
                self._changed |= changed
            raise
        self._unlisted |= changed
        self._unlisted.update(dict.fromkeys([queue for queue, _ in dirty]))

    def list_changed(self, commit_log_end: int) -> None:
        """Write the state of changed queues into the journal of queues; blocks.

        Call this after ``sync``, in the same thread.

        :param commit_log_end: the units of all messages below this offset of the commit log are on disk.
        :raises OSError: the journal could not be written; the call may be repeated.
        """
        journal = self.journal
        behind: dict[ConsumeQueue, None] = {}
        if journal.is_current:
            unlisted = list(self._unlisted)
            journal.add(commit_log_end, lambda: self._known(unlisted, commit_log_end, behind))
        else:
            file_bytes = self._shared.file_bytes
            journal.write_all(commit_log_end, file_bytes, lambda: self._known(self, commit_log_end, behind))
        self._unlisted = behind

    def _known(
        self, queues: Iterable[ConsumeQueue], commit_log_end: int, behind: dict[ConsumeQueue, None]
    ) -> list[KnownTopic]:
        """Return the state of queues with regard to messages below an end of the log.

        :param behind: gets the queues that have later messages. Units of later messages may be on disk already, but
            only the next list names them.
        """
        by_topic: dict[str, list[tuple[int, ...]]] = {}
        for queue in queues:
            if self.by_name.get((queue.topic, queue.queue_id)) is queue:  # not deleted meanwhile
                state = queue.state(commit_log_end)
                if state[0] < queue.max_offset:
                    behind[queue] = None
                by_topic.setdefault(queue.topic, []).append((queue.queue_id, *state))
        topics_ns = self._files.modified_all(self._directory, list(by_topic))
        files_ns = iter(queue_files_modified(self._files, self._paths, by_topic.items(), self._shared.file_bytes))
        known: list[KnownTopic] = []
        for (topic, found), topic_ns in zip(by_topic.items(), topics_ns, strict=True):
            known.append((topic, topic_ns, [(*figures, next(files_ns)) for figures in found]))  # type: ignore[misc]
        return known

    def _sync_directory(self, directory: Path) -> None:
        try:
            self._files.fsync_directory(directory)
        except FileNotFoundError:  # the topic was deleted meanwhile
            return

    def _sync_file(self, path: Path) -> None:
        try:
            # A separate descriptor, because the shared one may be closed meanwhile and its number used again.
            fd = self._files.open(path)
        except FileNotFoundError:  # the file was deleted meanwhile
            return
        try:
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)

    def close(self) -> None:
        """Close all files."""
        self._shared.open_files.clear()
        self.journal.close()


def _with_parents(directories: Iterable[Path], root: Path) -> list[Path]:
    """Return the directories and all directories above up to the store's, because each may contain a new name."""
    found = set(directories)
    if found:
        topics = {directory.parent for directory in found}
        found |= topics | {topic.parent for topic in topics} | {root}
    return sorted(found)
