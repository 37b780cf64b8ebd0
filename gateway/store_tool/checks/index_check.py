"""Check key index files against the log: every entry against the keys of the log's messages.

Entries are in log order, except within the batches in which they were made. The entries of a stretch of the log are
thus found with a binary search. Entries in log order are compared as whole columns, and other entries by sums over the
columns. Single entries are looked at only if the sums differ. Entries of tags, which Apache RocketMQ makes since 5.5,
may be missing. The check of a file without the log is ``index_chains``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, count
from operator import mul
from pathlib import Path

from gateway.readable import moment_text
from gateway.store.index.index_entries import entry_seconds
from gateway.store_tool.checks.findings import Finding, FindingKind, Findings
from gateway.store_tool.checks.index_part import (
    ENTRY_WORDS,
    HASH,
    SECONDS,
    IndexFault,
    IndexPart,
    NearIndex,
    StretchKeys,
    in_entry,
    in_head,
    offsets_of,
    reading,
)
from gateway.store_tool.files.directory import StoreDirectory
from wire.disk.index_file import FIRST_ENTRY

MAX_TOLD = 100
"""The largest number of entries of one stretch that are reported singly."""
BATCH_ENTRIES = 4_096
"""The usual largest distance of an entry from the position that its message's offset would give: the size of a batch.
"""
FAR_ENTRIES = 131_072
"""The distance that no entry reaches."""


@dataclass(slots=True)
class IndexFaults:
    """The facts that a stretch of the log shows about the index.

    ``unindexed_from`` is the log offset of the stretch's first key after the end of the index, or −1.
    """

    faults: list[IndexFault] = field(default_factory=list)
    repeated: int = 0
    unindexed_from: int = -1


# --- a stretch of the log against the files --------------------------------------------------------------------------


class _Window:
    """The entries of one file near a stretch. A plain class, so that its offsets are computed once.

    ``first`` is the number of the first entry, and ``offsets`` has the offsets of all entries. ``inside`` has the
    entries whose messages are in the stretch.
    """

    __slots__ = ("entries", "first", "inside", "offsets", "part")

    def __init__(self, part: IndexPart, first: int, entries: array[int], begin: int, end: int) -> None:
        self.part = part
        self.first = first
        self.entries = entries
        self.offsets = offsets_of(entries)
        self.inside = _inside(entries, self.offsets, begin, end)


def compare_stretch(index: NearIndex, keys: StretchKeys, begin: int, end: int) -> IndexFaults:
    """Compare the entries that the log needs for [begin, end) with those that the files have."""
    result = IndexFaults()
    if not index.exists:
        result.unindexed_from = keys.offsets[0] if keys else -1
        return result
    parts = [file.part for file in index.files if file.reaches(begin, end)]
    windows: list[_Window] = []
    is_right = False
    for margin in (BATCH_ENTRIES, FAR_ENTRIES):
        windows = [window for part in parts if (window := _window(part, begin, end, margin)) is not None]
        is_right = bool(windows) and (_are_in_order(windows, keys) or (len(windows) == 1 and _is_all(windows[0], keys)))
        if is_right:
            break
    for window in windows:
        _check_times(window, keys, result)
    if not is_right:
        _look_closely(windows, keys, (begin, end), index.end, result)
    return result


def _are_in_order(windows: Sequence[_Window], keys: StretchKeys) -> bool:
    """Return whether the entries are those of the log in its order, with or without the tags."""
    entries, seconds = array("i"), array("i")
    wanted = _as_many(keys, sum(len(window.inside) for window in windows) // ENTRY_WORDS)
    for window in windows:
        start = len(seconds)
        entries += window.inside
        seconds += _all_seconds(wanted.times[start : len(entries) // ENTRY_WORDS], window.part.head.begin_ms)
    return (
        offsets_of(entries) == wanted.offsets
        and entries[HASH::ENTRY_WORDS] == wanted.hashes
        and entries[SECONDS::ENTRY_WORDS] == seconds
    )


def _as_many(keys: StretchKeys, count: int) -> StretchKeys:
    """Return the keys without the tags if that gives ``count`` entries; otherwise the keys with the tags."""
    return keys.without_tags() if count == keys.are_tags.count(0) else keys


def _is_all(window: _Window, keys: StretchKeys) -> bool:
    """Return whether the entries are the same, with or without the tags, in any order.

    Sums of the columns and of a product are compared. Any single changed entry changes the sums. Several changed
    entries could only cancel out in a way that no real damage has.
    """
    entries, begin_ms = window.inside, window.part.head.begin_ms
    found = offsets_of(entries), entries[HASH::ENTRY_WORDS], entries[SECONDS::ENTRY_WORDS]
    keys = _as_many(keys, len(found[0]))
    wanted = keys.offsets, keys.hashes, _all_seconds(keys.times, begin_ms)
    return _sums(*found) == _sums(*wanted)


def _inside(entries: array[int], offsets: array[int], begin: int, end: int) -> array[int]:
    """Return the entries of messages in [begin, end)."""
    are_inside = [begin <= offset < end for offset in offsets]
    if all(are_inside):
        return entries
    inside = array("i", bytes(entries.itemsize * ENTRY_WORDS * sum(are_inside)))
    for word in range(ENTRY_WORDS):
        inside[word::ENTRY_WORDS] = array("i", list(compress(entries[word::ENTRY_WORDS], are_inside)))
    return inside


def _sums(offsets: Sequence[int], hashes: Sequence[int], seconds: Sequence[int]) -> tuple[int, ...]:
    return len(offsets), sum(offsets), sum(hashes), sum(seconds), sum(map(mul, offsets, hashes))


def _look_closely(
    windows: Sequence[_Window], keys: StretchKeys, span: tuple[int, int], index_end: int, result: IndexFaults
) -> None:
    times = dict(zip(keys.offsets, keys.times, strict=True))
    known = Counter(zip(keys.offsets, keys.hashes, strict=True))
    bare = keys.without_tags()
    wanted = Counter(zip(bare.offsets, bare.hashes, strict=True))
    seen: Counter[tuple[int, int]] = Counter()
    for window in windows:
        _judge_window(window, span, known, times, seen, result)
    _judge_missing(windows, wanted - seen, index_end, result)


def _judge_missing(
    windows: Sequence[_Window], missing: Counter[tuple[int, int]], index_end: int, result: IndexFaults
) -> None:
    """Judge the keys without an entry: not indexed yet, or lost."""
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
    part, entries = window.part, window.entries
    begin_ms = part.head.begin_ms
    hashes, ages = entries[HASH::ENTRY_WORDS], entries[SECONDS::ENTRY_WORDS]
    rows = zip(count(window.first), window.offsets, hashes, ages, strict=False)
    for entry, offset, key_hash, seconds in rows:
        if not span[0] <= offset < span[1]:
            continue
        name = (offset, key_hash)
        if name not in known:
            what = f"entry {entry} has key hash {key_hash}, which no key of the message at {offset} has"
            if offset not in times:
                what = f"entry {entry} belongs to no message: none with a key starts at {offset}"
            result.faults.append(in_entry(part, entry, what, offset))
        else:
            seen[name] += 1
            if seen[name] > known[name]:
                result.repeated += 1
            expected = entry_seconds(begin_ms, times[offset])
            if seconds != expected:
                what = (
                    f"entry {entry} has {seconds} s since the begin of the file, its message was stored at {expected} s"
                )
                result.faults.append(in_entry(part, entry, what, offset))
        if len(result.faults) >= MAX_TOLD:
            return


def _check_times(window: _Window, keys: StretchKeys, result: IndexFaults) -> None:
    """Check the header's times: the first entry's time, and that of the last entry or the newest message."""
    part, head = window.part, window.part.head
    offsets = window.offsets
    begin = _time_of(keys, head.begin_commit_log_offset)
    if begin is not None and begin != head.begin_ms:
        what = (
            f"the header says it begins at {moment_text(head.begin_ms)}, its first message is of {moment_text(begin)}"
        )
        result.faults.append(in_head(part, "begin_ms", what))
    if window.first + len(offsets) == FIRST_ENTRY + part.entry_count:
        newest, last = _time_of(keys, max(offsets)), _time_of(keys, offsets[-1])
        if newest is not None and head.end_ms not in (newest, last):
            what = (
                f"the header says it ends at {moment_text(head.end_ms)}, its newest message is of {moment_text(newest)}"
            )
            result.faults.append(in_head(part, "end_ms", what))


def _time_of(keys: StretchKeys, offset: int) -> int | None:
    """Return when the message at an offset was stored; None if it has no key or is not in the stretch."""
    packed, wanted = memoryview(keys.offsets).tobytes(), array("q", (offset,)).tobytes()
    at = packed.find(wanted)
    while at >= 0 and at % keys.offsets.itemsize:
        at = packed.find(wanted, at + 1)
    return keys.times[at // keys.offsets.itemsize] if at >= 0 else None


def _window(part: IndexPart, begin: int, end: int, margin: int) -> _Window | None:
    """Return the entries of a file that may belong to [begin, end); None if there are none."""
    used = part.entry_count
    if not used:
        return None
    with reading(part) as file:

        def offset_of(entry: int) -> int:
            return offsets_of(file.entries(entry, 1))[0]

        numbers = range(FIRST_ENTRY, FIRST_ENTRY + used)
        first = FIRST_ENTRY + bisect_left(numbers, begin, key=offset_of)
        last = FIRST_ENTRY + bisect_left(numbers, end, key=offset_of)
        first = max(first - margin, FIRST_ENTRY)
        last = min(last + margin, FIRST_ENTRY + used)
        window = _Window(part, first, file.entries(first, last - first), begin, end)
    is_near = len(window.inside) > 0 or (max(window.offsets) >= begin and min(window.offsets) < end)
    return window if is_near else None


def _all_seconds(times: array[int], begin_ms: int) -> array[int]:
    return array("i", [entry_seconds(begin_ms, time) for time in times])


# --- judging ---------------------------------------------------------------------------------------------------------


class IndexCheck:
    """Collect the findings about the index. ``bad_files`` have to be made again."""

    def __init__(self, directory: StoreDirectory, findings: Findings, parts: Sequence[IndexPart]) -> None:
        self._directory = directory
        self._findings = findings
        self._parts = parts
        self._unindexed_from = -1
        self.bad_files: set[Path] = set()

    def add(self, found: IndexFaults, is_gap: Callable[[int], bool]) -> None:
        """Add the findings of a stretch, in log order.

        :param is_gap: returns whether an offset is in a damaged part of the log, which is already reported.
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
        """Add the findings of a file by itself."""
        for fault in faults:
            self._tell(fault)

    def finish(self, scanned: int | None) -> None:
        """Judge the messages that are missing from the end of the index.

        :param scanned: the log offset up to which the index is known to be complete; None if not known.
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
        # A start after a kill makes the newest file again, and trusts the others.
        settles = self._directory.killed and (not self._parts or fault.path == self._parts[-1].path)
        if not settles:
            self.bad_files.add(fault.path)
        self._findings.add(
            Finding(
                FindingKind.INDEX if fault.commit_log_offset is None else FindingKind.ENTRY,
                fault.path,
                fault.what,
                settles=settles,
                position=fault.position,
                commit_log_offset=fault.commit_log_offset,
            )
        )
