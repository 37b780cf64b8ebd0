"""The key index: from a message's unique key, its KEYS and its tag to its places in the commit log.

A key is hashed when its message is dispatched; files get the entries in the background, a few hundred messages at a
time. Entries that are not built yet wait in a bounded backlog. If the backlog is full, or the newest index files were
lost, the messages are read again from the log: then the index is *behind* and catches up from ``scanned``. An older
file that was lost leaves a *gap*, which is also filled from the log. A query waits for every part in which it could
find something. Upstream: ``IndexService``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from gateway.clock import Milliseconds
from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths, index_name, is_index_name
from gateway.store.index.index_entries import ROW_BYTES, IndexEntries, rows_from, rows_without
from gateway.store.index.index_file import IndexFile, IndexSnapshot, read_head
from gateway.store.index.index_gap import IndexGap, find_gaps, load_index_names, save_index_names
from gateway.store.log.copied_records import KeyedRecord
from gateway.store.log.log_batch import NO_END
from gateway.store.put_result import PutOutcome, message_count
from gateway.telemetry.logs import EventLog
from wire.disk.index_file import FIRST_ENTRY, IndexShape, entry_may_match
from wire.errors import LayoutError
from wire.message.java_hash import index_key_hash
from wire.message.record import StoredMessage

log = EventLog("store")

LEAST_SLICE = 256
"""The least number of messages in a slice; fewer wait for more.

A slice causes some work that is equal for any number of messages.
"""
MAX_SLICE_ENTRIES = 32_768
"""The most entries made at once, except for the entries of the last message: a message may have 16,000 keys."""
BUILD_SLICE = 512
"""The number of messages that a query indexes at a time while it waits for the backlog."""
MAX_BACKLOG_BYTES = 64 * 1024 * 1024
"""The most bytes of the log with messages that wait."""
MAX_BACKLOG_ENTRIES = 1_000_000
"""The most entries of messages that wait (20 MB), except for the entries of one request.

A message may have thousands of KEYS.
"""
MAX_CHAIN = 100_000
"""The most messages with one hash and time that one query returns: colliding keys must not hold the broker."""
MAX_WALK = 2_000_000
"""The most entries that one query examines: a slot may lead through every message of a busy tag."""
FLUSH_INTERVAL_MS = 10_000
"""The time between two flushes by interval, in milliseconds.

Keys are spread over the whole file, so each flush writes most of its 20 MB of slots.
"""
FLUSH_ENTRIES = 250_000
"""The number of entries in memory (5 MB) from which a flush does not wait for its interval."""


@dataclass(frozen=True, slots=True)
class IndexMark:
    """The part of the log that a flush has brought into index files on disk.

    - ``scanned``: every record below this offset is considered.
    - ``last_offset``: the offset of the last record with an entry; −1 if there is none.
    - ``stored_at_ms``: the store time of that record, in milliseconds.
    """

    scanned: int
    last_offset: int
    stored_at_ms: int


@dataclass(frozen=True, slots=True)
class IndexFlush:
    """The data that one flush writes, and the mark that it will prove."""

    mark: IndexMark
    snapshots: Sequence[IndexSnapshot]
    names: Mapping[str, bool]
    """The names of the files, and whether each is whole on disk before the flush."""
    names_after: Mapping[str, bool]


class KeyIndex:
    """All index files; any thread may use them.

    :param read_from: returns the dispatched messages of the log from an offset on.
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
        self._paths = paths
        self._shape = shape
        self._clock_ms = clock_ms
        self._read_from = read_from
        self._max_backlog = max_backlog
        self._lock = RLock()
        self._waiting = IndexEntries()
        self._waiting_end = 0  # the end of the log that is covered when nothing waits any more
        self._behind = False
        self._gaps: list[IndexGap] = []
        self._filled: list[IndexGap] = []
        self._saved_names: Mapping[str, bool] = {}
        self._saved_mark: IndexMark | None = None
        self._last_flush_ms = 0
        self._expired: list[Path] = []  # files out of sight that still have to be deleted
        self.index_files: list[IndexFile] = []
        self.scanned = 0

    # --- opening -------------------------------------------------------------------------------------------------

    def load(self, *, clean: bool, checkpoint_ms: int, mark: IndexMark | None, log_min: int, log_end: int) -> list[str]:
        """Take over the files and decide from where the log has to be read again; return remarks.

        After an unclean stop, a file that ends later than the checkpoint is rolled back to the checkpoint. If this is
        not possible, the file is deleted, as upstream ``IndexService.load`` does.
        """
        remarks: list[str] = []
        deleted = False
        rolled_back: IndexFile | None = None
        names = self._saved_names = load_index_names(self._files, self._paths)
        for name in filter(is_index_name, self._files.list(self._paths.index)):
            path = self._paths.index / name
            if not names.get(name, True):
                self._files.unlink(path)  # the file was being made again when the process ended
                continue
            try:
                file = read_head(self._files, path, self._shape)
            except LayoutError as error:
                remarks.append(f"index file {path} was deleted and is rebuilt: {error}")
                self._files.unlink(path)
                deleted = True
                continue
            if file is None:
                remarks.append(
                    f"index file {path} is not used: its size is not that of the configured slots and entries"
                )
            elif file.next_entry == FIRST_ENTRY:
                self._files.unlink(path)  # made for entries that were lost in a crash
            elif not clean and mark is not None and _is_cut_short(file, mark, log_end):
                file.roll_back(mark.last_offset, mark.stored_at_ms)
                self.index_files.append(file)
                rolled_back = file
            elif _is_too_new(file, clean, checkpoint_ms, mark, log_end):
                remarks.append(f"index file {path} is newer than the checkpoint: deleted, to be rebuilt")
                self._files.unlink(path)
                deleted = True
            else:
                self.index_files.append(file)
        while rolled_back is not None and self.index_files[-1] is not rolled_back:
            # Made for the forgotten entries. Only in the newest file can cut chains be continued.
            self._files.unlink(self.index_files.pop().path)
        # A deleted file must not come back after a power failure: beside newer files it would count as valid. Remaining
        # files may come from a process that was killed before the names of these files were durable.
        self._files.fsync_directory(self._paths.index)
        self._gaps = find_gaps(names, self.index_files, log_min)
        for gap in self._gaps:
            lost = ", ".join(str(self._paths.index / name) for name in gap.lost)
            remarks.append(f"index file {lost} is lost: its keys are taken from the commit log again")
        self._choose_start(mark, log_min, log_end, deleted=deleted)
        self._go_on_with_newest(rolled_back)
        return remarks

    def _go_on_with_newest(self, rolled_back: IndexFile | None) -> None:
        if self.index_files and not self.index_files[-1].is_full:
            self.index_files[-1].load_slots()
        if rolled_back is not None:
            rolled_back.save_roll_back()

    def _choose_start(self, mark: IndexMark | None, log_min: int, log_end: int, *, deleted: bool) -> None:
        last = self._last_offset()
        start = log_min
        if mark is not None and last >= mark.last_offset and mark.scanned <= log_end and not deleted:
            start = max(mark.scanned, log_min)
        if last >= start:
            start = last  # read again: some keys of this message may have been in a lost file
        self.scanned = start
        self._behind = start < log_end

    def _last_offset(self) -> int:
        used = [file.end_offset for file in self.index_files[-2:] if file.next_entry > FIRST_ENTRY]
        return used[-1] if used else -1

    # --- building ------------------------------------------------------------------------------------------------

    def offer(self, outcomes: Sequence[PutOutcome]) -> None:
        """Hash the keys of dispatched messages, in log order; ``build`` brings them into files.

        Nothing else of the messages is kept, so that their memory serves the next messages while it is in the
        processor's cache.
        """
        if not outcomes:
            return
        end = outcomes[-1].commit_log_offset + outcomes[-1].size
        with self._lock:
            if self._has_room(message_count(outcomes), outcomes[0].commit_log_offset, end):
                taken = self._waiting.add_outcomes(outcomes, MAX_BACKLOG_ENTRIES)
                self._wait_for(outcomes[taken].commit_log_offset if taken < len(outcomes) else None, end)

    def offer_copied(self, records: Sequence[KeyedRecord], end: int) -> None:
        """Hash the keys of copied records as ``offer`` does; ``end`` is the offset of the log after them."""
        with self._lock:
            if self._has_room(len(records), records[0][1] if records else end, end):
                taken = self._waiting.add_copied(records, MAX_BACKLOG_ENTRIES)
                self._wait_for(records[taken][1] if taken < len(records) else None, end)

    def _has_room(self, messages: int, begin: int, end: int) -> bool:
        """Return whether messages may wait; otherwise they are read from the log later, after the backlog."""
        waiting = self._waiting
        if waiting.message_count:
            begin = waiting.first_offset
        is_full = waiting.message_count + messages > self._max_backlog or end - begin > MAX_BACKLOG_BYTES
        self._behind = self._behind or is_full
        return not self._behind

    def _wait_for(self, rest: int | None, end: int) -> None:
        """Note that messages wait, up to ``end`` or up to the offset ``rest`` of the first that is too much."""
        self._behind = rest is not None
        self._waiting_end = end if rest is None else rest
        if not self._waiting.message_count:
            self.scanned = max(self.scanned, self._waiting_end)

    @property
    def backlog(self) -> int:
        """The number of messages that wait for their entries; at least 1 while the log has to be read again."""
        return self._waiting.message_count + self._behind + len(self._gaps)

    @property
    def has_slice(self) -> bool:
        """True if enough messages wait for ``build``; fewer wait for more, for a query or for the next flush."""
        return self._waiting.message_count >= LEAST_SLICE or self._behind or bool(self._gaps)

    def build(self, budget: int) -> int:
        """Make the entries of up to ``budget`` messages; return how many were examined, 0 if none wait.

        :raises OSError: an index file could not be made or read; call again later.
        """
        with self._lock:
            done = self._build_waiting(budget) if self._waiting.message_count else 0
            if self._waiting.message_count:
                return done
            if self._behind and done < budget:
                done += self._catch_up(budget - done)
            if self._gaps and not self._behind and done < budget:
                done += self._fill_gap(self._gaps[0], budget - done)
            return done

    def _build_waiting(self, budget: int) -> int:
        """Make the entries of the oldest messages that wait; return how many messages."""
        waiting = self._waiting
        rows, count = waiting.first(budget, MAX_SLICE_ENTRIES)
        # Some or all of these messages may have been read from the log already.
        self._add(rows_from(rows, self.scanned), self._newest)
        waiting.drop(rows, count)
        self.scanned = max(self.scanned, waiting.first_offset if waiting.message_count else self._waiting_end)
        return count

    def _catch_up(self, budget: int) -> int:
        messages, ended = _some(self._read_from(self.scanned), budget)
        if messages:
            self._add(_rows_of(messages), self._newest)
            self.scanned = messages[-1].commit_log_offset + messages[-1].total_size
        self._behind = not ended
        return len(messages)

    def _fill_gap(self, gap: IndexGap, budget: int) -> int:
        messages, ended = _some(self._read_from(gap.next_offset), budget)
        inside = [message for message in messages if message.commit_log_offset <= gap.last_offset]
        if inside:
            rows = rows_without(_rows_of(inside), lambda key_hash, offset: gap.is_known(key_hash, offset, self._lock))
            self._add(rows, lambda: self._of_gap(gap))
            gap.next_offset = inside[-1].commit_log_offset + inside[-1].total_size
        if ended or len(inside) < len(messages) or gap.next_offset > gap.last_offset:
            self._gaps.remove(gap)
            self._filled.append(gap)
            log.info("key index complete again", lost=", ".join(gap.lost))
        return len(messages)

    def _add(self, rows: bytes, choose: Callable[[], IndexFile]) -> None:
        """Add entries to the file that grows, and to further files when it is full."""
        while rows:
            file = choose()
            end = file.room * ROW_BYTES
            file.add_rows(rows[:end])
            rows = rows[end:]

    def _newest(self) -> IndexFile:
        """Return the file that grows; make a new file if none has room."""
        if self.index_files and not self.index_files[-1].is_full:
            return self.index_files[-1]
        name = index_name(self._clock_ms())
        if self.index_files:
            name = max(name, _following(self.index_files[-1]))
        return self._make(name, len(self.index_files))

    def _of_gap(self, gap: IndexGap) -> IndexFile:
        """Return the file that grows in a gap; it has the name of the lost file."""
        if not gap.made or gap.made[-1].is_full:
            name = gap.lost[len(gap.made)] if len(gap.made) < len(gap.lost) else _following(gap.made[-1])
            if name >= gap.behind.path.name:
                raise FileExistsError(f"no name is left for an index file before {gap.behind.path}")
            gap.made.append(self._make(name, self.index_files.index(gap.behind)))
        return gap.made[-1]

    def _make(self, name: str, position: int) -> IndexFile:
        file = IndexFile(self._files, self._paths.index / name, self._shape)
        file.make()
        self.index_files.insert(position, file)
        return file

    # --- reading -------------------------------------------------------------------------------------------------

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield commit log offsets of messages that may have the key and time, newest first, each once.

        Times in entries are whole seconds and hashes collide: the caller examines the messages themselves.
        """
        key_hash = index_key_hash(topic, key)
        seen: set[int] = set()
        steps = 0
        # The lock is held for one slice at a time, because the dispatch of new messages needs the lock too.
        while self._waits(begin_ms, end_ms):
            self.build(BUILD_SLICE)
        with self._lock:
            index_files = self.index_files[::-1]
        for file in index_files:
            if file.head().overlaps(begin_ms, end_ms):
                for found in self._entries(file, key_hash):
                    steps += 1
                    if found is not None and found[0] not in seen:
                        offset, seconds = found
                        if entry_may_match(file.begin_ms, seconds, begin_ms, end_ms):
                            seen.add(offset)
                            yield offset
                    if len(seen) >= MAX_CHAIN or steps >= MAX_WALK:
                        return
            if file.begin_ms < begin_ms:
                return

    def _entries(self, file: IndexFile, key_hash: int) -> Iterator[tuple[int, int] | None]:
        try:
            yield from file.find(key_hash, self._lock)
        except FileNotFoundError:
            with self._lock:
                if file in self.index_files:
                    raise
            # The file expired after the search started: the messages in the file are deleted.

    def _waits(self, begin_ms: int, end_ms: int) -> bool:
        with self._lock:
            some_wait = self._behind or self._waiting.message_count > 0
            return some_wait or any(gap.may_know(begin_ms, end_ms) for gap in self._gaps)

    # --- upkeep --------------------------------------------------------------------------------------------------

    @property
    def flush_is_due(self) -> bool:
        """True if a flush by interval should include the index."""
        waited_ms = self._clock_ms() - self._last_flush_ms
        if not 0 <= waited_ms < FLUSH_INTERVAL_MS:
            return True
        with self._lock:
            return sum(file.pending_count for file in self.index_files) >= FLUSH_ENTRIES

    def snapshot(self, *, due_only: bool = False, room_bytes: int = NO_END) -> IndexFlush:
        """Return a flush of the entries built so far; ``sync`` brings them to the disk once the log itself is there.

        :param due_only: True to return an empty flush while ``flush_is_due`` is False.
        :param room_bytes: if the flush may take more bytes than this, it is empty: a start makes the entries again from
            the log.
        """
        with self._lock:
            saved = self._saved_mark
            nothing = None if saved is None else IndexFlush(saved, (), self._saved_names, self._saved_names)
            if nothing is not None and due_only and not self.flush_is_due:
                return nothing
            if self._waiting.message_count and not self._behind:
                self._build_few()
            needed_bytes = sum(file.unwritten_bytes for file in self.index_files)
            if nothing is not None and needed_bytes > room_bytes:
                log.warning("key index not written: too little space", needed=needed_bytes, left=max(room_bytes, 0))
                return nothing
            self._last_flush_ms = self._clock_ms()
            changed = [file for file in self.index_files if file.dirty]
            snapshots = [IndexSnapshot(file) for file in changed]
            last = self.index_files[-1] if self.index_files else None
            mark = IndexMark(
                scanned=self.scanned,
                last_offset=self._last_offset(),
                stored_at_ms=last.end_ms if last is not None else 0,
            )
            unsaved = [gap for gap in self._filled if any(file in changed for file in gap.made)]
            return IndexFlush(mark, snapshots, self._names(self._gaps + unsaved), self._names(self._gaps))

    def _names(self, gaps: Sequence[IndexGap]) -> dict[str, bool]:
        names = dict.fromkeys([file.path.name for file in self.index_files], True)
        for gap in gaps:
            names |= dict.fromkeys([*gap.lost, *[file.path.name for file in gap.made]], False)
        return names

    def build_waiting(self) -> None:
        """Make the entries of all messages that wait, but not of messages that have to be read from the log again."""
        while self._waiting.message_count and self._build_few():
            continue

    def _build_few(self) -> int:
        try:
            return self.build(LEAST_SLICE)
        except OSError as error:
            log.error("key index cannot be written", error=str(error))
            return 0

    def sync(self, flush: IndexFlush) -> None:
        """Bring a snapshot to the disk; blocks, for any thread.

        :raises OSError: the entries are still in memory; call ``give_back`` with the snapshot.
        """
        self._save_names(flush.names)
        for snapshot in flush.snapshots:
            snapshot.write(self._lock)
            with self._lock:
                snapshot.file.written(snapshot)
        self._save_names(flush.names_after)
        with self._lock:
            growing = {*self.index_files[-1:], *(file for gap in self._gaps for file in gap.made[-1:])}
            for file in self.index_files:
                if file not in growing and not file.dirty:
                    file.forget_slots()
            self._filled = [gap for gap in self._filled if gap.is_unsaved]
            self._saved_mark = flush.mark

    def _save_names(self, names: Mapping[str, bool]) -> None:
        if names != self._saved_names:
            save_index_names(self._files, self._paths, names)
            self._saved_names = names

    def give_back(self, flush: IndexFlush) -> None:
        """Take back a snapshot that did not reach the disk as a whole: the next snapshot has its pages again."""
        with self._lock:
            for snapshot in flush.snapshots:
                snapshot.file.thaw_pages(snapshot.pages)

    def remove_expired(self, log_min: int) -> int:
        """Delete files that only know deleted messages, but never the newest file; return how many were deleted.

        :raises OSError: some files still exist; the next call deletes them.
        """
        with self._lock:
            needed = {file for gap in self._gaps for file in (gap.behind, *gap.made)}
            expired = [
                file
                for file in self.index_files[:-1]
                if file.end_offset < log_min and not file.dirty and file not in needed
            ]
            # First hide the files, so that no new search reads them; then delete.
            self.index_files = [file for file in self.index_files if file not in expired]
            self._expired += [file.path for file in expired]
        count = 0
        while self._expired:
            self._files.unlink(self._expired[0])  # outside the lock: a large file takes long on some file systems
            del self._expired[0]
            count += 1
        return count


def _some(messages: Iterable[StoredMessage], count: int) -> tuple[list[StoredMessage], bool]:
    """Return up to ``count`` messages, and whether there are no more.

    Fewer messages are returned if they may have ``MAX_SLICE_ENTRIES`` entries.
    """
    some: list[StoredMessage] = []
    property_bytes = 0
    for message in messages:
        if len(some) == count or property_bytes >= 2 * MAX_SLICE_ENTRIES:
            return some, False
        some.append(message)
        property_bytes += len(message.properties)
    return some, True


def _rows_of(messages: Sequence[StoredMessage]) -> bytes:
    entries = IndexEntries()
    entries.add_messages(messages)
    return entries.rows()


def _following(file: IndexFile) -> str:
    return f"{int(file.path.name) + 1:017d}"


def _is_cut_short(file: IndexFile, mark: IndexMark, log_end: int) -> bool:
    """Return whether the process ended during a flush of the file: the file has what the mark names, and more."""
    return file.begin_offset <= mark.last_offset < file.end_offset and mark.scanned <= log_end


def _is_too_new(file: IndexFile, clean: bool, checkpoint_ms: int, mark: IndexMark | None, log_end: int) -> bool:
    """Return whether a file may know messages that the log does not have, or lack slots for its entries."""
    if file.end_offset >= log_end:
        return True
    if clean:
        return False
    # The offset is exact. The time is for directories of other brokers: messages may share a millisecond.
    return file.end_offset > mark.last_offset if mark is not None else file.end_ms > checkpoint_ms
