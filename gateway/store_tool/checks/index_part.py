"""One key index file as the checks see it: its shape, its header, its entries as words.

A file does not say how many slots and entries it has. The configured numbers are tried first, then the usual four
entries for each slot. Files are read and never mapped. A file is mostly holes, and touching a mapped hole takes memory
on a tmpfs, or kills the process if there is none.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.store.index.index_entries import TopicHashes
from gateway.store_tool.files.directory import DiskFile, open_to_read
from wire.disk.index_file import ENTRY_BYTES, FIRST_ENTRY, HEAD, HEAD_BYTES, SLOT_BYTES, IndexHead, IndexShape
from wire.errors import LayoutError, LocalError
from wire.message.properties import PropertyName

ENTRIES_PER_SLOT = 4
"""The entries for each slot in upstream's defaults, a ratio that people keep when they change the defaults."""
ENTRY_WORDS = ENTRY_BYTES // 4
HASH, OFFSET_HIGH, OFFSET_LOW, SECONDS, PREVIOUS = range(ENTRY_WORDS)
"""The words of an entry."""
_SWAP = sys.byteorder == "little"
_FILES = FileLayer()


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One index file with its shape and header."""

    path: Path
    shape: IndexShape
    head: IndexHead

    @property
    def entry_count(self) -> int:
        """The number of entries in use."""
        return min(self.head.next_entry, self.shape.entries) - FIRST_ENTRY


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """An index file, with the lowest and the highest commit log offset of its entries."""

    part: IndexPart
    lowest: int
    highest: int

    def reaches(self, begin: int, end: int) -> bool:
        """Return whether an entry may belong to a message in [begin, end) of the log."""
        return self.lowest < end and self.highest >= begin


@dataclass(frozen=True, slots=True)
class NearIndex:
    """The index files with entries near a stretch of the log.

    ``end`` is the highest commit log offset that any file says it has; −1 if no file has one. ``exists`` is True if
    there is an index file at all.
    """

    files: tuple[PlacedPart, ...] = ()
    end: int = -1
    exists: bool = False


@dataclass(frozen=True, slots=True)
class IndexFault:
    """A fault in an index file. ``position`` is the byte of the fault; None if not known."""

    path: Path
    position: int | None
    what: str
    commit_log_offset: int | None = None


def shape_of(size: int, configured: IndexShape) -> IndexShape | None:
    """Return how many slots and entries a file of this size has; None if neither guess fits."""
    if size == configured.file_bytes:
        return configured
    slots, rest = divmod(size - HEAD_BYTES, SLOT_BYTES + ENTRIES_PER_SLOT * ENTRY_BYTES)
    try:
        return IndexShape(slots, slots * ENTRIES_PER_SLOT) if rest == 0 else None
    except LocalError:
        return None


def read_part(file: DiskFile, configured: IndexShape) -> IndexPart | str:
    """Return the file with its shape and header, or what is wrong with the file as a whole."""
    shape = shape_of(file.size, configured)
    if not file.path.is_file():
        return "is no file that can be read"
    if shape is None:
        return (
            f"has {file.size} bytes; with maxHashSlotNum={configured.slots} and maxIndexNum={configured.entries} "
            f"it has {configured.file_bytes}"
        )
    with file.path.open("rb") as opened:
        data = opened.read(HEAD_BYTES)
    try:
        head = IndexHead.parse(data)
    except LayoutError as error:
        return str(error)
    if head.next_entry > shape.entries:
        return f"the header says {head.next_entry - FIRST_ENTRY} entries, {shape.entries - FIRST_ENTRY} have room"
    return IndexPart(file.path, shape, head)


def in_head(part: IndexPart, name: str, what: str) -> IndexFault:
    """Return a fault of a header field."""
    return IndexFault(part.path, HEAD.offset(name), what)


def in_entry(part: IndexPart, entry: int, what: str, offset: int | None = None) -> IndexFault:
    """Return a fault of an entry."""
    return IndexFault(part.path, part.shape.entry_position(entry), what, offset)


# --- words -----------------------------------------------------------------------------------------------------------


class IndexWords:
    """Read a file's slots and entries as big-endian int32 numbers."""

    __slots__ = ("_fd", "_shape")

    def __init__(self, fd: int, shape: IndexShape) -> None:
        self._fd = fd
        self._shape = shape

    def slots(self) -> array[int]:
        """Return the newest entry of each slot."""
        return words(_FILES.pread(self._fd, self._shape.slots * SLOT_BYTES, HEAD_BYTES))

    def entries(self, first: int, count: int) -> array[int]:
        """Return entries, with ``ENTRY_WORDS`` words for each."""
        return words(_FILES.pread(self._fd, count * ENTRY_BYTES, self._shape.entry_position(first)))


@contextmanager
def reading(part: IndexPart) -> Iterator[IndexWords]:
    """Open the file for reading."""
    fd = open_to_read(part.path)
    try:
        yield IndexWords(fd, part.shape)
    finally:
        os.close(fd)


def words(data: bytes) -> array[int]:
    """Return big-endian int32 numbers as an array."""
    found = array("i", data)
    if _SWAP:
        found.byteswap()
    return found


def offsets_of(entries: array[int]) -> array[int]:
    """Return the commit log offset of each entry."""
    pairs = array("i", bytes(8 * (len(entries) // ENTRY_WORDS)))
    first, second = (OFFSET_LOW, OFFSET_HIGH) if _SWAP else (OFFSET_HIGH, OFFSET_LOW)
    pairs[0::2], pairs[1::2] = entries[first::ENTRY_WORDS], entries[second::ENTRY_WORDS]
    return array("q", pairs.tobytes())


_TAG_IS_NONE = bytes((1, 0))
"""A translation that swaps 0 and 1."""


class StretchKeys:
    """The entries as columns, in the order in which servers make them. ``are_tags`` has a 1 for each entry of a tag.

    A plain class for speed, because every record uses it.
    """

    __slots__ = ("_topics", "are_tags", "hashes", "offsets", "times")

    def __init__(self) -> None:
        self.hashes, self.offsets, self.times = array("i"), array("q"), array("q")
        self.are_tags = bytearray()
        self._topics: dict[str, TopicHashes] = {}

    def add(self, topic: str, properties: Mapping[str, str], offset: int, stored_at_ms: int) -> None:
        """Add the entries that a message needs."""
        hashes = self._topics.get(topic)
        if hashes is None:
            hashes = self._topics[topic] = TopicHashes(topic)
        find = properties.get
        found = []
        if unique := find(PropertyName.UNIQ_KEY):
            found.append(hashes.of_unique_key(unique))
        if words := find(PropertyName.KEYS):
            found += [hashes.of_word(word) for word in words.split(" ") if word]
        self.are_tags += bytes(len(found))
        if tag := find(PropertyName.TAGS):
            found.append(hashes.of_tag(tag))
            self.are_tags.append(1)
        self.hashes.extend(found)
        for _ in found:
            self.offsets.append(offset)
            self.times.append(stored_at_ms)

    def without_tags(self) -> StretchKeys:
        """Return a copy without the entries of tags, which Apache RocketMQ makes since 5.5."""
        keys, wanted = StretchKeys(), self.are_tags.translate(_TAG_IS_NONE.ljust(256, b"\x00"))
        keys.hashes.extend(compress(self.hashes, wanted))
        keys.offsets.extend(compress(self.offsets, wanted))
        keys.times.extend(compress(self.times, wanted))
        keys.are_tags = bytearray(len(keys.hashes))
        return keys

    def __len__(self) -> int:
        return len(self.hashes)
