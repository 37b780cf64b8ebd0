"""One key index file: a hash table that grows in memory and reaches the disk in an order that survives a crash.

Entries and header are on disk before the slots that lead to them, so a slot never points to an entry that a crash took
away. The slots of the file that grows are all in memory (20 MB if every page is in use; a page is made for its first
key), so that adding a key never reads. Entries also wait in memory until the next flush. Other files are read from the
disk. Not thread-safe; ``KeyIndex`` has the lock.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be
from librt.vecs import append, vec
from mypy_extensions import i32, i64, u8

from gateway.store.disk.files import FileLayer
from gateway.store.disk.open_files import OpenFile
from gateway.store.disk.paths import StorePaths, is_index_name
from gateway.store.disk.small_files import read_file
from gateway.store.index.index_entries import OFFSET_AT, ROW_BYTES, STORED_AT, entry_seconds
from wire.disk.index_file import (
    ENTRY,
    ENTRY_BYTES,
    FIRST_ENTRY,
    HEAD_BYTES,
    NO_ENTRY,
    SLOT_BYTES,
    IndexHead,
    IndexShape,
)
from wire.errors import LayoutError
from wire.layout_writers import write_index_entry

PAGE_SLOTS: Final = 1024
PAGE_BYTES: Final = PAGE_SLOTS * SLOT_BYTES
LOAD_BYTES = 256 * PAGE_BYTES
"""The number of bytes of slots read at a time when a file is taken over."""
SLICE_PAGES = 64
"""The number of pages of slots written at a time: code that adds keys waits at most until these are copied."""
SLICE_ENTRIES = 10_000
"""The number of entries written at a time, for the same reason as ``SLICE_PAGES``."""
BLOCK_ENTRIES = 512
"""The number of entries read at a time: the entries of a key with many messages lie close to each other."""
NEWEST_FILES = 16
"""The number of newest index files whose end is read: the newest one may have no entry yet."""
_SWAP = sys.byteorder == "little"


class IndexSnapshot:
    """The data that one flush of a file writes: taken under the lock and written without the lock, one at a time.

    Nothing is copied when the snapshot is taken, as copying tens of megabytes would keep everyone waiting. New entries
    are only added after those of the snapshot, and the old content of a page of slots is kept if the page changes
    before it is written.
    """

    __slots__ = ("entry_count", "file", "first_entry", "head", "pages")

    def __init__(self, file: IndexFile) -> None:
        self.file = file
        self.first_entry = file.pending_first
        self.entry_count = file.pending_count
        self.head = file.head()
        self.pages: Sequence[int] = file.freeze_pages()

    def write(self, lock: AbstractContextManager[object]) -> None:
        """Write entries and header, sync, write slots, sync. Blocks; for any thread.

        :param lock: the lock of the file's changes; held for slices.
        """
        file = self.file
        files, end = file.files, self.first_entry + self.entry_count
        with file.lend() as fd:
            for first in range(self.first_entry, end, SLICE_ENTRIES):
                with lock:
                    entries = file.pending_entries(first, min(first + SLICE_ENTRIES, end))
                files.pwrite(fd, entries, file.shape.entry_position(first))
            files.pwrite(fd, self.head.build(), 0)
            files.fdatasync(fd)
            file.name_durably()
            if self.pages:
                file.write_frozen(self.pages, lock)
                files.fdatasync(fd)


class IndexFile:
    """One index file. Only the newest file, and new files that fill a gap, are written; all files are read."""

    def __init__(self, files: FileLayer, path: Path, shape: IndexShape) -> None:
        self.files = files
        self.path = path
        self.shape = shape
        self._open: OpenFile | None = None
        # Pages of slots. A page without a key is empty; before ``load_slots`` there are no pages.
        self._pages = vec[vec[i32]]()
        self._changed = vec[u8]()  # a flag for each page that has to be written
        self._forgotten = b""  # entries between ``roll_back`` and ``load_slots``
        self._is_named = True
        self.dirty = False
        # Pages of a flush that are not written yet. If a page changed since, its content at the flush; otherwise None.
        self._frozen: dict[int, bytes | None] = {}
        self.pending = bytearray()
        self.take(IndexHead())

    def take(self, head: IndexHead) -> None:
        """Take over the figures of a header."""
        self.begin_ms = head.begin_ms
        self.end_ms = head.end_ms
        self.begin_offset = head.begin_commit_log_offset
        self.end_offset = head.end_commit_log_offset
        self.used_slots = head.used_slots
        self.next_entry = self.pending_first = head.next_entry

    def head(self) -> IndexHead:
        """Return the header as it is now."""
        return IndexHead(
            begin_ms=self.begin_ms,
            end_ms=self.end_ms,
            begin_commit_log_offset=self.begin_offset,
            end_commit_log_offset=self.end_offset,
            used_slots=self.used_slots,
            next_entry=self.next_entry,
        )

    def make(self) -> None:
        """Create the file at its full size, as a hole; its name becomes durable with its first entries."""
        self.files.make_directory(self.path.parent)
        file = OpenFile(self.files, self.files.open(self.path, create=True))
        with file.lend() as fd:
            self.files.truncate(fd, self.shape.file_bytes)
        self._is_named = False
        self._open = file
        self._pages = self._empty_pages()

    def name_durably(self) -> None:
        """Make the name of a new file durable in its directory; blocks."""
        if not self._is_named:
            self.files.fsync_directory(self.path.parent)
            self._is_named = True

    def lend(self) -> OpenFile:
        """Lend the file for a ``with`` statement; open it first if it is closed."""
        file = self._open
        if file is None:
            file = self._open = OpenFile(self.files, self.files.open(self.path))
        return file.lend()

    @property
    def is_full(self) -> bool:
        """True if a further key needs a new file."""
        return self.shape.is_full(self.next_entry)

    @property
    def pending_count(self) -> int:
        """The number of entries that are only in memory."""
        return self.next_entry - self.pending_first

    @property
    def room(self) -> int:
        """The number of keys for which the file still has room."""
        return max(self.shape.entries - self.next_entry, 0)

    # --- adding --------------------------------------------------------------------------------------------------

    def load_slots(self) -> None:
        """Bring the slots into memory, so that keys can be added; read every part that is not a hole.

        Numbers that lead to no entry count as empty slots: Apache's broker would follow them in a circle.
        """
        pages = self._empty_pages()
        first, end = self.shape.slot_position(0), self.shape.slot_position(self.shape.slots)
        forgotten, self._forgotten = self._forgotten, b""
        with self.lend() as fd:
            for data_start, data_end in self.files.data_ranges(fd, first, end):
                start = data_start - (data_start - first) % PAGE_BYTES  # whole pages
                stop = min(data_end + -(data_end - first) % PAGE_BYTES, end)
                while start < stop:
                    count = min(LOAD_BYTES, stop - start)
                    slots = _swapped(self.files.pread(fd, count, start))
                    self._load_pages(pages, (start - first) // PAGE_BYTES, slots, forgotten)
                    start += count
        self._pages = pages

    def _load_pages(self, pages: vec[vec[i32]], number: int, slots: array[int], forgotten: bytes) -> None:
        is_wrong = min(slots) < NO_ENTRY or max(slots) >= self.next_entry
        for at in range(0, len(slots), PAGE_SLOTS):
            page = slots[at : at + PAGE_SLOTS]
            if is_wrong:
                kept = array("i", [self._before_roll_back(slot, forgotten) for slot in page])
                if kept != page:
                    # A wrong number on disk must not lead to an entry when the file has grown.
                    self._change(number)
                    page = kept
            if any(page):
                pages[number] = vec[i32](page)
            number += 1

    def roll_back(self, last_offset: int, stored_at_ms: int) -> None:
        """Forget the entries of messages after ``last_offset``, because a flush of these entries was cut short.

        ``load_slots`` comes next, then ``save_roll_back``. Entries may be torn, and then look like entries of offset 0:
        they stay, unused, as no slot leads to them.
        """
        end = self.next_entry
        forgotten = b""
        while self.next_entry > FIRST_ENTRY:
            first = max(self.next_entry - BLOCK_ENTRIES, FIRST_ENTRY)
            count = (self.next_entry - first) * ENTRY_BYTES
            block = self._read(count, self.shape.entry_position(first)).ljust(count, b"\x00")
            kept = [n for n, entry in enumerate(ENTRY.iter_unpack(block), 1) if entry[1] <= last_offset]
            forgotten = block[(kept[-1] if kept else 0) * ENTRY_BYTES :] + forgotten
            self.next_entry = first + (kept[-1] if kept else 0)
            if kept:
                break
        assert len(forgotten) == (end - self.next_entry) * ENTRY_BYTES, "block by block from the end"
        self._forgotten = forgotten
        self.pending_first = self.next_entry
        self.end_offset = last_offset
        self.end_ms = stored_at_ms

    def save_roll_back(self) -> None:
        """Bring a roll-back to the disk, after ``load_slots``; blocks.

        Slots are written before the header: after a crash in between, the next start finds the same entries to forget.
        If the header had already forgotten the entries, slots that still lead to them would lose the older entries of
        their chains.
        """
        with self.lend() as fd:
            if self.dirty:
                self.write_frozen(self.freeze_pages(), nullcontext())
                self.files.fdatasync(fd)
            self.files.pwrite(fd, self.head().build(), 0)
            self.files.fdatasync(fd)

    def _before_roll_back(self, slot: int, forgotten: bytes) -> int:
        """Return the newest entry of a chain that was not forgotten; a slot on disk leads to entries on disk."""
        while (at := (slot - self.next_entry) * ENTRY_BYTES) >= 0:
            previous = ENTRY.unpack_from(forgotten, at)[3] if at < len(forgotten) else NO_ENTRY
            slot = previous if previous < slot else NO_ENTRY
        return max(slot, NO_ENTRY)

    def _empty_pages(self) -> vec[vec[i32]]:
        """Return the pages of a file without a key, and mark none as changed."""
        pages, changed = vec[vec[i32]](), vec[u8]()
        for _ in range(-(-self.shape.slots // PAGE_SLOTS)):
            pages, changed = append(pages, vec[i32]()), append(changed, 0)
        self._changed = changed
        return pages

    def forget_slots(self) -> None:
        """Free the memory of the slots: no key is added any more, and all slots are on disk."""
        self._pages = vec[vec[i32]]()

    def _change(self, page: int) -> None:
        self._changed[page] = 1
        self.dirty = True

    def add_rows(self, rows: bytes) -> None:
        """Index the keys of some ``IndexEntries``, in the order of the log: at least one key, at most ``room`` keys."""
        count = len(rows) // ROW_BYTES
        assert len(self._pages), "load_slots comes first"
        assert 0 < count <= self.room, "the caller splits what does not fit"
        if self.next_entry == FIRST_ENTRY:
            self.begin_ms = min([read_i64_be(rows, at) for at in range(STORED_AT, len(rows), ROW_BYTES)])
            self.begin_offset = read_i64_be(rows, OFFSET_AT)
        pages, changed, keeps_frozen = self._pages, self._changed, bool(self._frozen)
        slot_count: i64 = self.shape.slots
        begin_ms: i64 = self.begin_ms
        stored_at_ms: i64 = read_i64_be(rows, STORED_AT)
        newest_ms: i64 = stored_at_ms
        seconds = entry_seconds(begin_ms, stored_at_ms)
        entries = BytesWriter()
        entry: i64 = self.next_entry
        new_slots: i64 = 0
        at: i64
        end: i64 = len(rows)
        for at in range(0, end, ROW_BYTES):
            key_hash: int = read_i32_be(rows, at)
            moment: i64 = read_i64_be(rows, at + STORED_AT)
            if moment != stored_at_ms:
                stored_at_ms = moment
                newest_ms = max(newest_ms, moment)
                seconds = entry_seconds(begin_ms, moment)
            slot: i64 = key_hash % slot_count
            number: i64 = slot // PAGE_SLOTS
            if keeps_frozen:
                self._keep(number)
            page = pages[number]
            if not len(page):
                page = self._empty_page(number)
                pages[number] = page
            place: i64 = slot % PAGE_SLOTS
            previous: int = page[place]
            newest: int = entry
            page[place] = newest
            changed[number] = 1
            if previous == NO_ENTRY:
                new_slots += 1
            write_index_entry(entries, key_hash, read_i64_be(rows, at + OFFSET_AT), seconds, previous)
            entry += 1
        self.pending += entries.getvalue()
        self.dirty = True
        self.used_slots += new_slots
        self.next_entry = entry
        self.end_offset = max(self.end_offset, read_i64_be(rows, end - ROW_BYTES + OFFSET_AT))
        self.end_ms = max(self.end_ms, newest_ms)

    def _empty_page(self, number: i64) -> vec[i32]:
        first: i64 = number * PAGE_SLOTS
        return vec[i32]([NO_ENTRY] * min(PAGE_SLOTS, self.shape.slots - first))

    def _page(self, number: int) -> bytes:
        """Return one page of slots as it is in memory, in the machine's byte order."""
        page = self._pages[number] if len(self._pages[number]) else self._empty_page(number)
        return memoryview(page).tobytes()

    # --- flushing ------------------------------------------------------------------------------------------------

    @property
    def unwritten_bytes(self) -> int:
        """The most disk space in bytes that the next flush takes: entries, and slots that may have been holes.

        Because of the header, each page of slots lies in two pages of the file system.
        """
        pages = [number for number, is_changed in enumerate(self._changed) if is_changed] if self.dirty else []
        return len(self.pending) + len(pages) * 2 * PAGE_BYTES

    def freeze_pages(self) -> Sequence[int]:
        """Return the numbers of the changed pages, in order; keep the pages' present content until it is written."""
        pages = [number for number, is_changed in enumerate(self._changed) if is_changed]
        self._frozen = dict.fromkeys(pages)
        for number in pages:
            self._changed[number] = 0
        self.dirty = False
        return pages

    def _keep(self, page: int) -> None:
        """Keep the content of a frozen page that is about to change."""
        frozen = self._frozen
        if page in frozen and frozen[page] is None:
            frozen[page] = self._page(page)

    def write_frozen(self, pages: Sequence[int], lock: AbstractContextManager[object]) -> None:
        """Write pages with their frozen content, and release them; not synced. The lock is held for slices."""
        frozen = self._frozen
        with self.lend() as fd:
            for run in _runs(pages):
                with lock:
                    slots = b"".join([frozen.pop(number) or self._page(number) for number in run])
                self.files.pwrite(fd, _swapped(slots).tobytes(), self.shape.slot_position(run[0] * PAGE_SLOTS))

    def thaw_pages(self, numbers: Sequence[int]) -> None:
        """Mark frozen pages as changed again, because not all of them were written."""
        self._frozen = {}
        for number in numbers:
            self._change(number)

    def pending_entries(self, first: int, end: int) -> bytearray:
        """Return entries that are in memory."""
        at = self.pending_first
        return self.pending[(first - at) * ENTRY_BYTES : (end - at) * ENTRY_BYTES]

    def written(self, snapshot: IndexSnapshot) -> None:
        """Forget the entries that a snapshot brought to the disk."""
        done = snapshot.first_entry + snapshot.entry_count
        if done > self.pending_first:
            del self.pending[: (done - self.pending_first) * ENTRY_BYTES]
            self.pending_first = done

    # --- finding -------------------------------------------------------------------------------------------------

    def find(self, key_hash: int, lock: AbstractContextManager[object]) -> Iterator[tuple[int, int] | None]:
        """Yield (commit log offset, seconds since the file's start) of the entries with a hash, newest first.

        Yield None for an entry of another key in the same slot, so that the caller can count the work. The disk is read
        without the lock, which is only needed for data in memory.
        """
        slot = self.shape.slot_of(key_hash)
        with lock:
            entry = self._newest_entry(slot)
            limit = self.next_entry
        if entry is None:
            data = self._read(SLOT_BYTES, self.shape.slot_position(slot))
            entry = int.from_bytes(data, "big", signed=True)
        block, block_first = b"", 0
        while FIRST_ENTRY <= entry < limit:
            fields = self._pending_entry(entry, lock) if entry >= self.pending_first else None
            if fields is None:
                at = (entry - block_first) * ENTRY_BYTES
                if not 0 <= at < len(block):
                    block_first, block = self._read_block(entry)
                    at = (entry - block_first) * ENTRY_BYTES
                fields = ENTRY.unpack_from(block, at)
            found, offset, seconds, previous = fields
            yield (offset, seconds) if found == key_hash else None
            # A chain leads only to older entries, so that damage cannot make a circle.
            limit = entry
            entry = previous

    def _newest_entry(self, slot: int) -> int | None:
        """Return the newest entry of a slot; None while the slots are not in memory."""
        if not len(self._pages):
            return None
        page = self._pages[slot // PAGE_SLOTS]
        return page[slot % PAGE_SLOTS] if len(page) else NO_ENTRY

    def _pending_entry(self, entry: int, lock: AbstractContextManager[object]) -> tuple[int, ...] | None:
        with lock:
            at = (entry - self.pending_first) * ENTRY_BYTES
            return ENTRY.unpack_from(self.pending, at) if at >= 0 else None  # otherwise it is on disk by now

    def _read_block(self, last: int) -> tuple[int, bytes]:
        """Return the number of the first entry of a block, and the entries of the block up to ``last``.

        Chains lead from an entry to older ones.
        """
        first = max(last + 1 - BLOCK_ENTRIES, NO_ENTRY)
        count = (last + 1 - first) * ENTRY_BYTES
        return first, self._read(count, self.shape.entry_position(first)).ljust(count, b"\x00")

    def _read(self, count: int, position: int) -> bytes:
        with self.lend() as fd:
            return self.files.pread(fd, count, position)


def read_head(files: FileLayer, path: Path, shape: IndexShape) -> IndexFile | None:
    """Return the index file at a path; None if its size does not fit the configured slots and entries.

    :raises LayoutError: the header is impossible.
    """
    file = IndexFile(files, path, shape)
    with file.lend() as fd:
        if files.size(fd) != shape.file_bytes:
            return None
        file.take(IndexHead.parse(files.pread(fd, HEAD_BYTES, 0)))
    return file


def newest_end_offsets(files: FileLayer, paths: StorePaths) -> list[int]:
    """Return the log offsets of the last messages that the newest index files know, whatever the files' shape.

    :raises OSError: a file cannot be read.
    """
    names = [name for name in files.list(paths.index) if is_index_name(name)]
    ends = []
    for name in names[-NEWEST_FILES:]:
        head = _readable_head(files, paths.index / name)
        if head is not None and head.next_entry > FIRST_ENTRY:
            ends.append(head.end_commit_log_offset)
    return ends


def _readable_head(files: FileLayer, path: Path) -> IndexHead | None:
    try:
        return IndexHead.parse(read_file(files, path, HEAD_BYTES))
    except LayoutError:
        return None


def _swapped(data: bytes) -> array[int]:
    """Return slots converted from the disk's byte order to the machine's, or back."""
    slots = array("i", data)
    if _SWAP:
        slots.byteswap()
    return slots


def _runs(pages: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield runs of neighbouring pages that are written at once, each of at most ``SLICE_PAGES`` pages."""
    first = 0
    for n in range(1, len(pages) + 1):
        if n == len(pages) or pages[n] != pages[n - 1] + 1 or n - first == SLICE_PAGES:
            yield pages[first:n]
            first = n
