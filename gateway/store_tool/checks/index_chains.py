"""Check a key index file by itself, without the log: all its chains, its slots, and its header."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from gateway.store_tool.checks.index_part import (
    ENTRY_WORDS,
    HASH,
    PREVIOUS,
    IndexFault,
    IndexPart,
    IndexWords,
    in_entry,
    in_head,
    offsets_of,
    reading,
)
from wire.disk.index_file import FIRST_ENTRY, NO_ENTRY, SLOT_BYTES

MAX_TOLD = 100
"""The largest number of entries, or slots, of one file that are reported singly."""
CHUNK_ENTRIES = 262_144
"""The number of entries read at once, so that the memory does not grow with the file."""


@dataclass(slots=True)
class FileFaults:
    """The faults of a file, and the lowest (or 0) and highest (or −1) commit log offset of its entries."""

    part: IndexPart
    faults: list[IndexFault] = field(default_factory=list)
    lowest: int = 0
    highest: int = -1


def check_file(part: IndexPart) -> FileFaults:
    """Follow all chains at once: each entry names the previous entry of its slot, each slot its newest entry."""
    result = FileFaults(part)
    newest = array("i", bytes(part.shape.slots * SLOT_BYTES))
    first_offset = last_offset = used_slots = 0
    with reading(part) as file:
        for first, entries in _chunks(part, file):
            offsets = offsets_of(entries)
            last_offset = offsets[-1]
            if first == FIRST_ENTRY:
                first_offset = result.lowest = offsets[0]
            result.lowest, result.highest = min(result.lowest, min(offsets)), max(result.highest, max(offsets))
            if len(result.faults) < MAX_TOLD:
                result.faults += _chain_faults(part, first, entries, newest)
                used_slots += entries[PREVIOUS::ENTRY_WORDS].count(NO_ENTRY)
        if len(result.faults) >= MAX_TOLD:
            return result
        slots = file.slots()
    if result.faults:  # a wrong previous entry says nothing of slots
        used_slots = len(newest) - newest.count(NO_ENTRY)
    result.faults += _slot_faults(part, newest, slots)
    result.faults += _head_faults(part, used_slots, (first_offset, last_offset, result.highest))
    return result


def beyond_log(found: FileFaults, log_end: int) -> list[IndexFault]:
    """Return the entries whose message cannot exist, because no message starts at or after ``log_end``."""
    if found.lowest >= 0 and found.highest < log_end:
        return []
    part, faults = found.part, []
    with reading(part) as file:
        for first, entries in _chunks(part, file):
            faults += [
                in_entry(part, entry, f"entry {entry} belongs to a message at {offset}, the log ends at {log_end}")
                for entry, offset in enumerate(offsets_of(entries), first)
                if not 0 <= offset < log_end
            ]
            if len(faults) >= MAX_TOLD:
                break
    return faults[:MAX_TOLD]


def _chunks(part: IndexPart, file: IndexWords) -> Iterator[tuple[int, array[int]]]:
    """Yield all entries in use, in chunks, with the number of each chunk's first entry."""
    end = FIRST_ENTRY + part.entry_count
    for first in range(FIRST_ENTRY, end, CHUNK_ENTRIES):
        yield first, file.entries(first, min(CHUNK_ENTRIES, end - first))


def _chain_faults(part: IndexPart, first: int, entries: array[int], newest: array[int]) -> list[IndexFault]:
    """Return the wrong links between entries, and update ``newest``, which has the newest entry of each slot so far."""
    faults: list[IndexFault] = []
    slots = part.shape.slots
    rows = zip(count(first), entries[HASH::ENTRY_WORDS], entries[PREVIOUS::ENTRY_WORDS], strict=False)
    for entry, key_hash, previous in rows:
        slot = key_hash % slots
        if newest[slot] != previous:
            what = f"entry {entry} says the one before it is {previous}, it is {newest[slot]}"
            faults.append(in_entry(part, entry, what))
            if len(faults) >= MAX_TOLD:
                break
        newest[slot] = entry
    return faults


def _slot_faults(part: IndexPart, newest: array[int], found: array[int]) -> list[IndexFault]:
    if newest == found:
        return []
    wrong = [slot for slot in range(part.shape.slots) if newest[slot] != found[slot]]
    return [
        IndexFault(
            part.path,
            part.shape.slot_position(slot),
            f"slot {slot} leads to entry {found[slot]}, its newest is {newest[slot]}",
        )
        for slot in wrong[:MAX_TOLD]
    ]


def _head_faults(part: IndexPart, used_slots: int, offsets: tuple[int, int, int]) -> list[IndexFault]:
    """Return what is wrong in the header.

    :param offsets: the commit log offsets of the first entry and the last entry, and the highest one.
    """
    head, faults = part.head, []
    first, last, highest = offsets
    # 4.9 counts a slot for every entry.
    if head.used_slots not in (used_slots, part.entry_count):
        what = f"the header says {head.used_slots} slots are used, {used_slots} are"
        faults.append(in_head(part, "used_slots", what))
    if part.entry_count and head.begin_commit_log_offset != first:
        what = f"the header says it begins at {head.begin_commit_log_offset}, entry 1 at {first}"
        faults.append(in_head(part, "begin_commit_log_offset", what))
    if part.entry_count and head.end_commit_log_offset not in (last, highest):
        what = f"the header says it ends at {head.end_commit_log_offset}, its last entry at {last}"
        faults.append(in_head(part, "end_commit_log_offset", what))
    return faults
