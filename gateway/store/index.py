"""The key index: from a message's unique key and its KEYS to its places in the commit log.

Built in the background from what was dispatched, a few hundred messages at a time; what is not built yet waits in a
bounded backlog. When that is full, or index files were lost, the messages are read again from the log: then the
index is *behind* and catches up from ``scanned``. A query drains the backlog first, so that it finds what was
acknowledged before it. Upstream: ``IndexService``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import RLock

from gateway.clock import Milliseconds
from gateway.store.files import FileLayer
from gateway.store.index_file import IndexFile, IndexSnapshot, read_head
from gateway.store.paths import StorePaths, index_name, is_index_name
from gateway.store.put_result import PutResult
from wire.disk.index_file import FIRST_ENTRY, IndexShape, entry_may_match
from wire.errors import LayoutError
from wire.message.flags import SysFlag
from wire.message.java_hash import index_key_hash
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage

Waiting = tuple[int, int, int, str, str | None, str | None]
"""commit log offset, size, stored at ms, topic, unique key, keys"""

BUILD_SLICE = 1_024
"""Messages a query indexes at a time while it waits for the backlog."""
CHAIN_SLICE = 64
"""Entries a query reads at a time."""
MAX_CHAIN = 100_000
"""Entries of one hash looked at by one query: a damaged or hostile chain must not hold the broker."""


@dataclass(frozen=True, slots=True)
class IndexMark:
    """How much of the log a flush has brought into index files on disk.

    ``scanned``: every record below this offset is considered; ``last_offset``: the last record with an entry, −1 for
    none; ``stored_at_ms``: its store time.
    """

    scanned: int
    last_offset: int
    stored_at_ms: int


@dataclass(frozen=True, slots=True)
class IndexFlush:
    """What one flush writes, and what it will prove."""

    mark: IndexMark
    snapshots: Sequence[IndexSnapshot]


class KeyIndex:
    """All index files; any thread may use it.

    :param read_from: the messages of the log from an offset on, as far as they are dispatched.
    """

    def __init__(
        self,
        files: FileLayer,
        paths: StorePaths,
        shape: IndexShape,
        clock_ms: Milliseconds,
        *,
        read_from: Callable[[int], Iterable[StoredMessage]],
        max_backlog: int,
    ) -> None:
        self._files = files
        self._directory = paths.index
        self._shape = shape
        self._clock_ms = clock_ms
        self._read_from = read_from
        self._max_backlog = max_backlog
        self._lock = RLock()
        self._backlog: deque[Waiting] = deque()
        self._behind = False
        self._unsynced: list[IndexFile] = []
        self.index_files: list[IndexFile] = []
        self.scanned = 0

    # --- opening -------------------------------------------------------------------------------------------------

    def load(self, *, clean: bool, checkpoint_ms: int, mark: IndexMark | None, log_min: int, log_end: int) -> list[str]:
        """Take over the files; decide from where the log has to be read again. Returns remarks.

        After an unclean stop a file that ends later than the checkpoint is deleted, as upstream
        ``IndexService.load`` does.
        """
        remarks: list[str] = []
        names = [name for name in self._files.list(self._directory) if is_index_name(name)]
        for name in names:
            path = self._directory / name
            try:
                file = read_head(self._files, path, self._shape)
            except LayoutError as error:
                remarks.append(f"index file {path} was deleted and is rebuilt: {error}")
                self._files.unlink(path)
                continue
            if file is None:
                remarks.append(
                    f"index file {path} is not used: its size is not that of the configured slots and entries"
                )
            elif _is_too_new(file, clean, checkpoint_ms, mark, log_end):
                remarks.append(f"index file {path} is newer than the checkpoint: deleted, to be rebuilt")
                self._files.unlink(path)
            else:
                self.index_files.append(file)
        self._choose_start(mark, log_min, log_end)
        return remarks

    def _choose_start(self, mark: IndexMark | None, log_min: int, log_end: int) -> None:
        last = self._last_offset()
        start = log_min
        if mark is not None and last >= mark.last_offset and mark.scanned <= log_end:
            start = max(mark.scanned, log_min)
        if last >= start:
            start = self._after(last)
        self.scanned = start
        self._behind = start < log_end

    def _last_offset(self) -> int:
        used = [file.end_offset for file in self.index_files[-2:] if file.next_entry > FIRST_ENTRY]
        return used[-1] if used else -1

    def _after(self, offset: int) -> int:
        for message in self._read_from(offset):
            return offset + message.total_size
        return offset

    # --- building ------------------------------------------------------------------------------------------------

    def offer(self, results: Sequence[PutResult]) -> None:
        """Take note of dispatched messages; their entries are made by ``build``."""
        with self._lock:
            if self._behind or len(self._backlog) + len(results) > self._max_backlog:
                self._behind = True  # read from the log instead, after what is in the backlog
                return
            append = self._backlog.append
            for result in results:
                message = result.message
                find = message.property_map.get
                if message.sys_flag & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK:
                    append(
                        (
                            result.commit_log_offset,
                            result.size,
                            result.stored_at_ms,
                            result.topic,
                            find(PropertyName.UNIQ_KEY),
                            find(PropertyName.KEYS),
                        )
                    )

    @property
    def backlog(self) -> int:
        """Messages that wait for their entries; at least 1 while the log has to be read again."""
        return len(self._backlog) + self._behind

    def build(self, budget: int) -> int:
        """Make the entries of up to ``budget`` messages; how many were looked at, 0 when nothing waits.

        :raises OSError: an index file could not be made or read; call again later.
        """
        with self._lock:
            done = 0
            backlog = self._backlog
            while backlog and done < budget:
                waiting = backlog[0]
                if waiting[0] >= self.scanned:
                    self._index(*waiting)
                backlog.popleft()
                done += 1
            if self._behind and done < budget:
                done += self._catch_up(budget - done)
            return done

    def _catch_up(self, budget: int) -> int:
        done = 0
        for message in self._read_from(self.scanned):
            if message.sys_flag & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK:
                self._index(
                    message.commit_log_offset,
                    message.total_size,
                    message.stored_at_ms,
                    message.topic,
                    message.property_map.get(PropertyName.UNIQ_KEY),
                    message.property_map.get(PropertyName.KEYS),
                )
            else:
                self.scanned = message.commit_log_offset + message.total_size
            done += 1
            if done >= budget:
                return done
        self._behind = False
        return done

    def _index(
        self, offset: int, size: int, stored_at_ms: int, topic: str, unique_key: str | None, keys: str | None
    ) -> None:
        if unique_key:
            self._file().add(index_key_hash(topic, unique_key), offset, stored_at_ms)
        if keys:
            for key in keys.split(" "):
                if key:
                    self._file().add(index_key_hash(topic, key), offset, stored_at_ms)
        self.scanned = offset + size

    def _file(self) -> IndexFile:
        if self.index_files and not self.index_files[-1].is_full:
            return self.index_files[-1]
        name = index_name(self._clock_ms())
        if self.index_files:
            name = max(name, f"{int(self.index_files[-1].path.name) + 1:017d}")
            self._unsynced.append(self.index_files[-1])
        file = IndexFile(self._files, self._directory / name, self._shape)
        file.make()
        self.index_files.append(file)
        return file

    # --- reading -------------------------------------------------------------------------------------------------

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Commit log offsets of messages that may have the key and time, newest first, each once.

        Times in entries are whole seconds and hashes collide: the caller looks at the messages themselves.
        """
        key_hash = index_key_hash(topic, key)
        seen: set[int] = set()
        # The lock is held for slices only: whoever dispatches new messages needs it too.
        while self.backlog:
            self.build(BUILD_SLICE)
        with self._lock:
            index_files = self.index_files[::-1]
        for file in index_files:
            if file.head().overlaps(begin_ms, end_ms):
                for offset, seconds in self._chain(file, key_hash):
                    if offset not in seen and entry_may_match(file.begin_ms, seconds, begin_ms, end_ms):
                        seen.add(offset)
                        yield offset
                    if len(seen) >= MAX_CHAIN:
                        return
            if file.begin_ms < begin_ms:
                return

    def _chain(self, file: IndexFile, key_hash: int) -> Iterator[tuple[int, int]]:
        chain = file.find(key_hash)
        while True:
            with self._lock:
                part = list(islice(chain, CHAIN_SLICE))
            yield from part
            if len(part) < CHAIN_SLICE:
                return

    # --- upkeep --------------------------------------------------------------------------------------------------

    def snapshot(self) -> IndexFlush:
        """What is built now, to be brought to the disk by ``sync`` once the log itself is there."""
        with self._lock:
            changed = [file for file in [*self._unsynced, *self.index_files[-1:]] if file.dirty]
            snapshots = [IndexSnapshot(file) for file in changed]
            for file in changed:
                file.dirty = set()
            last = self.index_files[-1] if self.index_files else None
            mark = IndexMark(
                scanned=self.scanned,
                last_offset=self._last_offset(),
                stored_at_ms=last.end_ms if last is not None else 0,
            )
            return IndexFlush(mark, snapshots)

    def sync(self, flush: IndexFlush) -> None:
        """Bring a snapshot to the disk; blocks, for any thread.

        :raises OSError: what is built is still in memory; ``give_back`` the snapshot.
        """
        for snapshot in flush.snapshots:
            snapshot.write()
            with self._lock:
                snapshot.file.written(snapshot)
        with self._lock:
            for file in self._unsynced:
                if not file.dirty:
                    file.pages = {}
            self._unsynced = [file for file in self._unsynced if file.dirty]

    def give_back(self, flush: IndexFlush) -> None:
        """A snapshot did not reach the disk, or not all of it: the next one has its pages again."""
        with self._lock:
            for snapshot in flush.snapshots:
                snapshot.file.dirty |= set(snapshot.pages)

    def remove_expired(self, log_min: int) -> int:
        """Delete files that only know deleted messages, never the newest; how many."""
        with self._lock:
            expired = [file for file in self.index_files[:-1] if file.end_offset < log_min and not file.dirty]
            for file in expired:
                self._files.unlink(file.path)
                self.index_files.remove(file)
            return len(expired)


def _is_too_new(file: IndexFile, clean: bool, checkpoint_ms: int, mark: IndexMark | None, log_end: int) -> bool:
    """Whether a file may know what the log does not have, or lack slots for entries it has."""
    if file.next_entry == FIRST_ENTRY:
        return False
    if file.end_offset >= log_end:
        return True
    if clean:
        return False
    # The offset is exact; times serve directories of other brokers, and messages may share a millisecond.
    return file.end_offset > mark.last_offset if mark is not None else file.end_ms > checkpoint_ms
