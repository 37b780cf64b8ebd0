"""Key index files: shape, header, every chain of a slot; and every entry against the keys of the log.

Entries lie in log order but for the batches in which they were made, so the entries of a stretch of the log are found
by halving, and compared by sums over them; only where these differ single entries are looked at. Entries of tags, which
Apache RocketMQ makes since 5.5, may be missing. Files do not say how many slots and entries they have: the configured
numbers are tried, then the usual four entries a slot. Files are only read,
and never mapped: they are mostly holes, and touching a mapped hole takes room on a tmpfs, or kills when there is none.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, count
from operator import mul
from pathlib import Path

from gateway.store.files import RealFiles
from gateway.store_tool.directory import DiskFile, StoreDirectory
from gateway.store_tool.findings import REPAIR, START, Finding, Findings, Kind
from wire.disk.index_file import (
    ENTRY,
    ENTRY_BYTES,
    FIRST_ENTRY,
    HEAD,
    HEAD_BYTES,
    MAX_SECONDS,
    NO_ENTRY,
    SLOT_BYTES,
    IndexHead,
    IndexShape,
)
from wire.errors import LayoutError, LocalError

ENTRIES_PER_SLOT = 4
"""Upstream's defaults, and what people keep to when they change them."""
MAX_TOLD = 100
"""Entries of one file, or stretch, told of one by one."""
BATCH_ENTRIES = 4_096
"""Entries mostly stand no farther from where their message's offset would put them: they are made in batches."""
FAR_ENTRIES = 131_072
"""And never so far."""
_SWAP = sys.byteorder == "little"
_WORDS = ENTRY_BYTES // 4
_FILES = RealFiles()


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One index file with its shape and header."""

    path: Path
    shape: IndexShape
    head: IndexHead

    @property
    def entry_count(self) -> int:
        """Entries in use."""
        return min(self.head.next_entry, self.shape.entries) - FIRST_ENTRY


@dataclass(frozen=True, slots=True)
class IndexFault:
    """Something wrong in an index file; ``position`` is the byte of it, None when that cannot be told."""

    path: Path
    position: int | None
    what: str
    commit_log_offset: int | None = None


@dataclass(slots=True)
class IndexFaults:
    """What a stretch of the log says of the index; ``unindexed_from``: its first key behind the index's end, or −1."""

    faults: list[IndexFault] = field(default_factory=list)
    repeated: int = 0
    unindexed_from: int = -1


def shape_of(size: int, configured: IndexShape) -> IndexShape | None:
    """How many slots and entries a file of a size has; None when neither guess fits."""
    if size == configured.file_bytes:
        return configured
    slots, rest = divmod(size - HEAD_BYTES, SLOT_BYTES + ENTRIES_PER_SLOT * ENTRY_BYTES)
    try:
        return IndexShape(slots, slots * ENTRIES_PER_SLOT) if rest == 0 else None
    except LocalError:
        return None


def read_part(file: DiskFile, configured: IndexShape) -> IndexPart | str:
    """The file, or what is wrong with it as a whole."""
    shape = shape_of(file.size, configured)
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


# --- a file by itself ------------------------------------------------------------------------------------------------


def check_file(part: IndexPart, log_end: int) -> list[IndexFault]:
    """Follow all chains at once: each entry names the one of its slot before it, each slot its newest.

    :param log_end: no message starts at or after it.
    """
    shape, used = part.shape, part.entry_count
    faults: list[IndexFault] = []
    fd = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        entries = _FILES.pread(fd, used * ENTRY_BYTES, shape.entry_position(FIRST_ENTRY))
        found = _words(_FILES.pread(fd, shape.slots * SLOT_BYTES, HEAD_BYTES))
    finally:
        os.close(fd)
    words = _words(entries)
    newest = array("i", bytes(shape.slots * SLOT_BYTES))
    slots = shape.slots
    for entry, key_hash, previous in zip(count(FIRST_ENTRY), words[0::_WORDS], words[4::_WORDS], strict=False):
        slot = key_hash % slots
        if newest[slot] != previous:
            what = f"entry {entry} says the one before it is {previous}, it is {newest[slot]}"
            faults.append(IndexFault(part.path, shape.entry_position(entry), what))
            if len(faults) >= MAX_TOLD:
                return faults
        newest[slot] = entry
    return [*faults, *_slot_faults(part, newest, found), *_head_faults(part, entries, newest, log_end)]


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


def _head_faults(part: IndexPart, entries: bytes, newest: array[int], log_end: int) -> list[IndexFault]:
    head, faults = part.head, []
    used = part.shape.slots - newest.count(NO_ENTRY)
    # 4.9 counts a slot for every entry.
    if head.used_slots not in (used, part.entry_count):
        faults.append(_in_head(part, "used_slots", f"the header says {head.used_slots} slots are used, {used} are"))
    if entries:
        offsets = [fields[1] for fields in ENTRY.iter_unpack(entries)]
        if head.begin_commit_log_offset != offsets[0]:
            what = f"the header says it begins at {head.begin_commit_log_offset}, entry 1 at {offsets[0]}"
            faults.append(_in_head(part, "begin_commit_log_offset", what))
        if head.end_commit_log_offset not in (offsets[-1], max(offsets)):
            what = f"the header says it ends at {head.end_commit_log_offset}, its last entry at {offsets[-1]}"
            faults.append(_in_head(part, "end_commit_log_offset", what))
        faults += [
            _entry_fault(part, entry, f"entry {entry} belongs to a message at {offset}, the log ends at {log_end}")
            for entry, offset in enumerate(offsets, FIRST_ENTRY)
            if not 0 <= offset < log_end
        ][:MAX_TOLD]
    return faults


def _in_head(part: IndexPart, name: str, what: str) -> IndexFault:
    return IndexFault(part.path, HEAD.offset(name), what)


def _entry_fault(part: IndexPart, entry: int, what: str, offset: int | None = None) -> IndexFault:
    return IndexFault(part.path, part.shape.entry_position(entry), what, offset)


# --- a stretch of the log against the files --------------------------------------------------------------------------


class StretchKeys:
    """The entries that a stretch of the log asks for: of keys, and of tags. A plain class: lists filled in a loop."""

    __slots__ = ("hashes", "offsets", "tag_hashes", "tag_offsets", "tag_times", "times")

    def __init__(self) -> None:
        self.hashes: list[int] = []
        self.offsets: list[int] = []
        self.times: list[int] = []
        self.tag_hashes: list[int] = []
        self.tag_offsets: list[int] = []
        self.tag_times: list[int] = []


@dataclass(slots=True)
class _Window:
    """Entries of one file near a stretch; ``first`` is the number of the first."""

    part: IndexPart
    first: int
    words: array[int]

    def columns(self, begin: int, end: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Offsets, hashes and seconds of the entries of messages in [begin, end)."""
        offsets: Sequence[int] = self.offsets()
        hashes: Sequence[int] = self.words[0::_WORDS]
        seconds: Sequence[int] = self.words[3::_WORDS]
        if offsets and (min(offsets) < begin or max(offsets) >= end):
            inside = _inside(offsets, begin, end)
            offsets, hashes, seconds = (list(compress(column, inside)) for column in (offsets, hashes, seconds))
        return offsets, hashes, seconds

    def offsets(self) -> array[int]:
        """The offset of each entry."""
        pairs = array("i", bytes(8 * (len(self.words) // _WORDS)))
        pairs[0::2], pairs[1::2] = self.words[1::_WORDS], self.words[2::_WORDS]
        if _SWAP:
            pairs.byteswap()
        offsets = array("q", pairs.tobytes())
        if _SWAP:
            offsets.byteswap()
        return offsets


def compare_stretch(parts: Sequence[IndexPart], keys: StretchKeys, begin: int, end: int) -> IndexFaults:
    """Compare what the log asks for in [begin, end) with what the files have."""
    result = IndexFaults()
    if not parts:
        result.unindexed_from = min(keys.offsets[:1] + keys.tag_offsets[:1], default=-1)
        return result
    index_end = max((part.head.end_commit_log_offset for part in parts if part.entry_count), default=-1)
    for margin in (BATCH_ENTRIES, FAR_ENTRIES):
        windows = [window for part in parts if (window := _window(part, begin, end, margin)) is not None]
        if len(windows) == 1 and _is_all(windows[0], keys, begin, end):
            _check_times(windows[0], keys, result)
            return result
    for window in windows:
        _check_times(window, keys, result)
    _look_closely(windows, keys, (begin, end), index_end, result)
    return result


def _is_all(window: _Window, keys: StretchKeys, begin: int, end: int) -> bool:
    """Whether the rows are the same, with the tags or without them, in whatever order.

    Sums of the columns and of a product are compared: any one changed entry changes them, and what several changed
    ones would have to be to cancel out is no damage that happens.
    """
    found = window.columns(begin, end)
    begin_ms = window.part.head.begin_ms
    if len(found[0]) == len(keys.offsets):
        wanted = (keys.offsets, keys.hashes, _all_seconds(keys.times, begin_ms))
    else:
        wanted = (
            keys.offsets + keys.tag_offsets,
            keys.hashes + keys.tag_hashes,
            _all_seconds(keys.times, begin_ms) + _all_seconds(keys.tag_times, begin_ms),
        )
    return _sums(*found) == _sums(*wanted)


def _inside(offsets: Sequence[int], begin: int, end: int) -> list[bool]:
    """Which offsets lie in [begin, end); what does not stands near the ends, mostly."""
    edge = 2 * BATCH_ENTRIES
    core = offsets[edge:-edge]
    if not core or min(core) < begin or max(core) >= end:
        return [begin <= offset < end for offset in offsets]
    first = [begin <= offset < end for offset in offsets[:edge]]
    return first + [True] * len(core) + [begin <= offset < end for offset in offsets[-edge:]]


def _sums(offsets: Sequence[int], hashes: Sequence[int], seconds: Sequence[int]) -> tuple[int, ...]:
    return len(offsets), sum(offsets), sum(hashes), sum(seconds), sum(map(mul, offsets, hashes))


def _look_closely(
    windows: Sequence[_Window], keys: StretchKeys, span: tuple[int, int], index_end: int, result: IndexFaults
) -> None:
    times = dict(zip(keys.offsets, keys.times, strict=True))
    times.update(zip(keys.tag_offsets, keys.tag_times, strict=True))
    wanted = Counter(zip(keys.offsets, keys.hashes, strict=True))
    tags = Counter(zip(keys.tag_offsets, keys.tag_hashes, strict=True))
    known = wanted + tags
    seen: Counter[tuple[int, int]] = Counter()
    for window in windows:
        _judge_window(window, span, known, times, seen, result)
    _judge_missing(windows, wanted - seen, index_end, result)


def _judge_missing(
    windows: Sequence[_Window], missing: Counter[tuple[int, int]], index_end: int, result: IndexFaults
) -> None:
    """Keys without an entry: not indexed yet, or lost."""
    later = [offset for offset, _ in missing if offset > index_end]
    if later:
        result.unindexed_from = min(later)
    lost = sorted(offset for offset, _ in missing if offset <= index_end)
    if lost:
        what = f"a key of the message at {lost[0]} has no entry"
        if len(lost) > 1:
            what = f"{len(lost)} keys of messages from {lost[0]} to {lost[-1]} have no entry"
        path = windows[0].part.path if windows else Path()
        result.faults.append(IndexFault(path, None, what, lost[0]))


def _judge_window(
    window: _Window,
    span: tuple[int, int],
    known: Counter[tuple[int, int]],
    times: dict[int, int],
    seen: Counter[tuple[int, int]],
    result: IndexFaults,
) -> None:
    part, words = window.part, window.words
    begin_ms = part.head.begin_ms
    rows = zip(count(window.first), window.offsets(), words[0::_WORDS], words[3::_WORDS], strict=False)
    for entry, offset, key_hash, seconds in rows:
        if not span[0] <= offset < span[1]:
            continue
        name = (offset, key_hash)
        if name not in known:
            what = f"entry {entry} has key hash {key_hash}, which no key of the message at {offset} has"
            if offset not in times:
                what = f"entry {entry} belongs to no message: none with a key starts at {offset}"
            result.faults.append(_entry_fault(part, entry, what, offset))
        else:
            seen[name] += 1
            if seen[name] > known[name]:
                result.repeated += 1
            expected = _seconds(times[offset], begin_ms)
            if seconds != expected:
                what = (
                    f"entry {entry} has {seconds} s since the begin of the file, its message was stored at {expected} s"
                )
                result.faults.append(_entry_fault(part, entry, what, offset))
        if len(result.faults) >= MAX_TOLD:
            return


def _check_times(window: _Window, keys: StretchKeys, result: IndexFaults) -> None:
    """The header's times are those of the first entry, and of the last one or the newest message."""
    part, head = window.part, window.part.head
    offsets = window.offsets()
    begin = _time_of(keys, head.begin_commit_log_offset)
    if begin is not None and begin != head.begin_ms:
        what = f"the header says begin_ms is {head.begin_ms}, its first message was stored at {begin}"
        result.faults.append(_in_head(part, "begin_ms", what))
    if window.first + len(offsets) == FIRST_ENTRY + part.entry_count:
        newest, last = _time_of(keys, max(offsets)), _time_of(keys, offsets[-1])
        if newest is not None and head.end_ms not in (newest, last):
            what = f"the header says end_ms is {head.end_ms}, its newest message was stored at {newest}"
            result.faults.append(_in_head(part, "end_ms", what))


def _time_of(keys: StretchKeys, offset: int) -> int | None:
    """When the message at an offset was stored; None when it has no key or lies elsewhere."""
    for offsets, times in ((keys.offsets, keys.times), (keys.tag_offsets, keys.tag_times)):
        if offset in offsets:
            return times[offsets.index(offset)]
    return None


def _window(part: IndexPart, begin: int, end: int, margin: int) -> _Window | None:
    """The entries of a file that may belong to [begin, end); None when there are none."""
    used = part.entry_count
    if not used:
        return None
    fd = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
    try:

        def offset_of(entry: int) -> int:
            at = part.shape.entry_position(entry)
            offset: int = ENTRY.unpack_from(_FILES.pread(fd, ENTRY_BYTES, at))[1]
            return offset

        numbers = range(FIRST_ENTRY, FIRST_ENTRY + used)
        first = FIRST_ENTRY + bisect_left(numbers, begin, key=offset_of)
        last = FIRST_ENTRY + bisect_left(numbers, end, key=offset_of)
        first = max(first - margin, FIRST_ENTRY)
        last = min(last + margin, FIRST_ENTRY + used)
        words = _words(_FILES.pread(fd, (last - first) * ENTRY_BYTES, part.shape.entry_position(first)))
    finally:
        os.close(fd)
    window = _Window(part, first, words)
    offsets = window.offsets()
    if max(offsets) < begin or min(offsets) >= end:
        return None
    return window


def _all_seconds(times: list[int], begin_ms: int) -> list[int]:
    if begin_ms <= 0 or (times and (min(times) < begin_ms or max(times) - begin_ms > MAX_SECONDS)):
        return [_seconds(time, begin_ms) for time in times]
    return [(time - begin_ms) // 1000 for time in times]


def _seconds(stored_at_ms: int, begin_ms: int) -> int:
    """As ``wire.disk.index_file.entry_seconds``."""
    return min(max((stored_at_ms - begin_ms) // 1000, 0), MAX_SECONDS) if begin_ms > 0 else 0


def _words(data: bytes | bytearray | memoryview) -> array[int]:
    """Big-endian int32 numbers."""
    words = array("i")
    words.frombytes(data)
    if _SWAP:
        words.byteswap()
    return words


# --- judging ---------------------------------------------------------------------------------------------------------


class IndexCheck:
    """Puts together what was found; ``bad_files`` are to be made again."""

    def __init__(self, directory: StoreDirectory, findings: Findings, parts: Sequence[IndexPart]) -> None:
        self._directory = directory
        self._findings = findings
        self._parts = parts
        self._unindexed_from = -1
        self.bad_files: set[Path] = set()

    def add(self, found: IndexFaults, is_gap: Callable[[int], bool]) -> None:
        """What a stretch says, in log order.

        :param is_gap: whether an offset lies where the log is damaged: that is told of already.
        """
        for fault in found.faults:
            if fault.commit_log_offset is not None and is_gap(fault.commit_log_offset):
                self.bad_files.add(fault.path)
            else:
                self._tell(fault)
        if found.repeated:
            # Apache's broker indexes the last messages again when it starts after a kill.
            self._findings.note("the key index knows some messages twice; harmless")
        if self._unindexed_from < 0:
            self._unindexed_from = found.unindexed_from

    def add_file(self, faults: Sequence[IndexFault]) -> None:
        """What a file says by itself."""
        for fault in faults:
            self._tell(fault)

    def finish(self, scanned: int | None) -> None:
        """Judge what is missing at the end.

        :param scanned: up to where the index is known to be complete; None when nobody says.
        """
        if self._unindexed_from < 0:
            return
        if not self._directory.index_files:
            self._findings.note("there are no index files: queries by key find nothing until a server builds them")
            return
        what = f"messages from commit log offset {self._unindexed_from} on are not in the key index"
        if scanned is not None and self._unindexed_from >= scanned:
            self._findings.note(f"{what} yet; a server goes on building it")
            return
        path = self._parts[-1].path if self._parts else self._directory.paths.index
        self._tell(IndexFault(path, None, what, self._unindexed_from))

    def _tell(self, fault: IndexFault) -> None:
        if fault.path == Path():
            fault = replace(fault, path=self._parts[0].path if self._parts else self._directory.paths.index)
        # A start after a kill makes the newest file anew, and trusts the others.
        settles = self._directory.killed and (not self._parts or fault.path == self._parts[-1].path)
        if not settles:
            self.bad_files.add(fault.path)
        self._findings.add(
            Finding(
                kind=Kind.INDEX if fault.commit_log_offset is None else Kind.ENTRY,
                path=fault.path,
                position=fault.position,
                commit_log_offset=fault.commit_log_offset,
                what=fault.what,
                remedy=START if settles else f"{REPAIR} {self._directory.root}",
            ),
            settles=settles,
        )
