"""One key index file: a hash table that grows in memory and reaches the disk in an order that survives a crash.

Entries and header are on disk before the slots that lead to them, so a slot never points to an entry that a crash
took away. Slots are kept in memory page by page, only the pages that were touched: a slot by slot write would cost a
system call for every key. Not thread-safe; ``KeyIndex`` brings the lock.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.store.files import FileLayer
from gateway.store.open_files import OpenFile
from wire.disk.index_file import (
    ENTRY,
    ENTRY_BYTES,
    FIRST_ENTRY,
    HEAD_BYTES,
    NO_ENTRY,
    SLOT_BYTES,
    IndexHead,
    IndexShape,
    entry_seconds,
)

PAGE_SLOTS = 1024
PAGE_BYTES = PAGE_SLOTS * SLOT_BYTES
_SWAP = sys.byteorder == "little"


class IndexSnapshot:
    """What one flush writes: taken under the lock, written without it. A plain class: fields filled once."""

    __slots__ = ("entries", "file", "first_entry", "head", "pages")

    def __init__(self, file: IndexFile) -> None:
        self.file = file
        self.first_entry = file.pending_first
        self.entries = bytes(file.pending)
        self.head = file.head()
        self.pages: Mapping[int, bytes] = {page: _big_endian(file.pages[page]) for page in sorted(file.dirty)}

    def write(self) -> None:
        """Entries and header, sync, slots, sync. Blocks; for any thread."""
        file = self.file
        files, fd = file.files, file.open().fd
        if self.entries:
            files.pwrite(fd, self.entries, file.shape.entry_position(self.first_entry))
        files.pwrite(fd, self.head.build(), 0)
        files.fdatasync(fd)
        if self.pages:
            for first, data in _runs(self.pages):
                files.pwrite(fd, data, file.shape.slot_position(first * PAGE_SLOTS))
            files.fdatasync(fd)


class IndexFile:
    """The newest index file is written, all are read."""

    __slots__ = (
        "_open",
        "begin_ms",
        "begin_offset",
        "dirty",
        "end_ms",
        "end_offset",
        "files",
        "next_entry",
        "pages",
        "path",
        "pending",
        "pending_first",
        "shape",
        "used_slots",
    )

    def __init__(self, files: FileLayer, path: Path, shape: IndexShape) -> None:
        self.files = files
        self.path = path
        self.shape = shape
        self._open: OpenFile | None = None
        self.pages: dict[int, array[int]] = {}
        self.dirty: set[int] = set()
        self.pending = bytearray()
        self.take(IndexHead())

    def take(self, head: IndexHead) -> None:
        """Go on from a header."""
        self.begin_ms = head.begin_ms
        self.end_ms = head.end_ms
        self.begin_offset = head.begin_commit_log_offset
        self.end_offset = head.end_commit_log_offset
        self.used_slots = head.used_slots
        self.next_entry = self.pending_first = head.next_entry

    def head(self) -> IndexHead:
        """The header as it is now."""
        return IndexHead(
            begin_ms=self.begin_ms,
            end_ms=self.end_ms,
            begin_commit_log_offset=self.begin_offset,
            end_commit_log_offset=self.end_offset,
            used_slots=self.used_slots,
            next_entry=self.next_entry,
        )

    def make(self) -> None:
        """Create the file at its full size, as a hole."""
        self.files.make_directory(self.path.parent)
        file = OpenFile(self.files, self.files.open(self.path, create=True))
        self.files.truncate(file.fd, self.shape.file_bytes)
        self.files.fsync_directory(self.path.parent)
        self._open = file

    def open(self) -> OpenFile:
        """The descriptor."""
        if self._open is None:
            self._open = OpenFile(self.files, self.files.open(self.path))
        return self._open

    @property
    def is_full(self) -> bool:
        """Whether a further key needs a new file."""
        return self.shape.is_full(self.next_entry)

    def add(self, key_hash: int, commit_log_offset: int, stored_at_ms: int) -> None:
        """Index one key of one message."""
        slot = key_hash % self.shape.slots
        number = slot // PAGE_SLOTS
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = self._load_page(number)
        previous = page[slot % PAGE_SLOTS]
        entry = self.next_entry
        if not FIRST_ENTRY <= previous < entry:
            previous = NO_ENTRY
            self.used_slots += 1
        if entry == FIRST_ENTRY:
            self.begin_ms = stored_at_ms
            self.begin_offset = commit_log_offset
        self.pending += ENTRY.pack(key_hash, commit_log_offset, entry_seconds(self.begin_ms, stored_at_ms), previous)
        page[slot % PAGE_SLOTS] = entry
        self.dirty.add(number)
        self.next_entry = entry + 1
        self.end_offset = commit_log_offset
        if stored_at_ms > self.end_ms:
            self.end_ms = stored_at_ms

    def written(self, snapshot: IndexSnapshot) -> None:
        """Forget what a snapshot brought to the disk and nothing has changed since."""
        done = snapshot.first_entry + len(snapshot.entries) // ENTRY_BYTES
        if done > self.pending_first:
            del self.pending[: (done - self.pending_first) * ENTRY_BYTES]
            self.pending_first = done

    def find(self, key_hash: int) -> Iterator[tuple[int, int]]:
        """(commit log offset, seconds since the file's begin) of the entries with a hash, newest first."""
        slot = key_hash % self.shape.slots
        entry = self._slot(slot)
        limit = self.next_entry
        while FIRST_ENTRY <= entry < limit:
            found, offset, seconds, previous = self._entry(entry)
            if found == key_hash:
                yield offset, seconds
            # Chains lead to older entries only; damage must not make a circle.
            limit = entry
            entry = previous

    def _slot(self, slot: int) -> int:
        page = self.pages.get(slot // PAGE_SLOTS)
        if page is not None:
            return page[slot % PAGE_SLOTS]
        data = self.files.pread(self.open().fd, SLOT_BYTES, self.shape.slot_position(slot))
        return int.from_bytes(data, "big", signed=True)

    def _entry(self, entry: int) -> tuple[int, int, int, int]:
        if entry >= self.pending_first:
            fields = ENTRY.unpack_from(self.pending, (entry - self.pending_first) * ENTRY_BYTES)
        else:
            data = self.files.pread(self.open().fd, ENTRY_BYTES, self.shape.entry_position(entry))
            fields = ENTRY.unpack_from(data.ljust(ENTRY_BYTES, b"\x00"))
        return fields

    def _load_page(self, number: int) -> array[int]:
        slots = min(PAGE_SLOTS, self.shape.slots - number * PAGE_SLOTS)
        data = self.files.pread(self.open().fd, slots * SLOT_BYTES, self.shape.slot_position(number * PAGE_SLOTS))
        page = array("i", data.ljust(slots * SLOT_BYTES, b"\x00"))
        if _SWAP:
            page.byteswap()
        return page


def read_head(files: FileLayer, path: Path, shape: IndexShape) -> IndexFile | None:
    """The index file at a path; None when its size is not that of the configured slots and entries.

    :raises LayoutError: the header cannot be.
    """
    file = IndexFile(files, path, shape)
    if files.size(file.open().fd) != shape.file_bytes:
        return None
    file.take(IndexHead.parse(files.pread(file.open().fd, HEAD_BYTES, 0)))
    return file


def _big_endian(page: array[int]) -> bytes:
    if not _SWAP:
        return page.tobytes()
    swapped = page[:]
    swapped.byteswap()
    return swapped.tobytes()


def _runs(pages: Mapping[int, bytes]) -> Iterator[tuple[int, bytes]]:
    """Neighbouring pages as one write: (first page, bytes)."""
    first = last = -2
    parts: list[bytes] = []
    for number, data in pages.items():
        if number != last + 1:
            if parts:
                yield first, b"".join(parts)
            first, parts = number, []
        parts.append(data)
        last = number
    if parts:
        yield first, b"".join(parts)
