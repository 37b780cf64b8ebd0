"""Key index files: a hash table on disk from ``topic#key`` to commit log offsets.

    header 40 bytes · slots, int32 each: number of the slot's newest entry, 0 for none · entries, 20 bytes
    each

An entry names the previous entry of its slot, so a slot is a chain from the newest entry to the oldest. Entry 0 is
never used, and so the header's ``next_entry`` starts at 1. Key hashes come from
``wire.message.java_hash.index_key_hash``. The numbers of slots and entries are settings of a broker
(``maxHashSlotNum``, ``maxIndexNum``). These numbers are not kept in the file, and the size of the file alone does not
give the numbers. (Upstream: ``IndexFile``, ``IndexHeader``.)
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass, replace

from wire.errors import LayoutError, LocalError
from wire.fixed_layout import FixedLayout, Int32sb, Int64sb, Readable

# On disk: never change.
HEAD = FixedLayout(
    "index file header",
    begin_ms=Int64sb,
    end_ms=Int64sb,
    begin_commit_log_offset=Int64sb,
    end_commit_log_offset=Int64sb,
    used_slots=Int32sb,
    next_entry=Int32sb,
)
ENTRY = FixedLayout("index entry", key_hash=Int32sb, commit_log_offset=Int64sb, seconds=Int32sb, previous_entry=Int32sb)
SLOT = FixedLayout("index slot", newest_entry=Int32sb)
HEAD_BYTES = HEAD.size
ENTRY_BYTES = ENTRY.size
SLOT_BYTES = SLOT.size

SLOTS = 5_000_000
"""Upstream's default of ``maxHashSlotNum``."""
ENTRIES = 20_000_000
"""Upstream's default of ``maxIndexNum`` (5 000 000 · 4)."""
NO_ENTRY = 0
FIRST_ENTRY = 1


@dataclass(frozen=True, slots=True)
class IndexHead:
    """The header of an index file; the times are store times in milliseconds."""

    begin_ms: int = 0
    end_ms: int = 0
    begin_commit_log_offset: int = 0
    end_commit_log_offset: int = 0
    used_slots: int = 0
    next_entry: int = FIRST_ENTRY

    @classmethod
    def parse(cls, buffer: Readable) -> IndexHead:
        """Read the header at the start of a file; a file of zeros is a new file.

        :raises LayoutError: the file is shorter than 40 bytes, or a count is negative.
        """
        try:
            head = cls(*HEAD.unpack_from(buffer, 0))
        except struct.error as error:
            raise LayoutError(f"index header takes {HEAD_BYTES} bytes, found {len(buffer)}") from error
        if head.used_slots < 0 or head.next_entry < 0:
            raise LayoutError(f"index header counts {head.used_slots} slots and entry {head.next_entry}")
        # Upstream reads 0 as 1: the header of a fresh file is written with its first entry.
        return head if head.next_entry else replace(head, next_entry=FIRST_ENTRY)

    def build(self) -> bytes:
        """Return the 40 bytes of the header."""
        return HEAD.pack(*astuple(self))

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether the file may know messages stored within [begin_ms, end_ms]."""
        return self.begin_ms <= end_ms and begin_ms <= self.end_ms


@dataclass(frozen=True, slots=True)
class IndexShape:
    """The positions of slots and entries in a file."""

    slots: int = SLOTS
    entries: int = ENTRIES

    def __post_init__(self) -> None:
        if self.slots < 1 or self.entries < 2:
            raise LocalError(f"an index needs a slot and two entries, not {self.slots} and {self.entries}")

    @property
    def file_bytes(self) -> int:
        """The size of a whole file in bytes."""
        return HEAD_BYTES + self.slots * SLOT_BYTES + self.entries * ENTRY_BYTES

    def slot_of(self, key_hash: int) -> int:
        """Return the slot of a key hash (0 … 2^31−1)."""
        return key_hash % self.slots

    def slot_position(self, slot: int) -> int:
        """Return the byte of the file at which a slot starts."""
        return HEAD_BYTES + slot * SLOT_BYTES

    def entry_position(self, entry: int) -> int:
        """Return the byte of the file at which an entry starts."""
        return HEAD_BYTES + self.slots * SLOT_BYTES + entry * ENTRY_BYTES

    def is_entry(self, entry: int, next_entry: int) -> bool:
        """Return whether a number found in a slot or entry leads to an entry in use."""
        return FIRST_ENTRY <= entry < next_entry and entry < self.entries

    def is_full(self, next_entry: int) -> bool:
        """Return whether the file has no room for another entry."""
        return next_entry >= self.entries


def entry_may_match(begin_ms: int, seconds: int, range_begin_ms: int, range_end_ms: int) -> bool:
    """Return whether an entry's message may have been stored within a range; entries have whole seconds only."""
    stored_at_ms = begin_ms + seconds * 1000
    return range_begin_ms <= stored_at_ms + 999 and stored_at_ms <= range_end_ms
