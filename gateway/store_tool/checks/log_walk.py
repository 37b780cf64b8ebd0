"""Walks through a stretch of the commit log: where records are, where they are not, and what they say of other files.

Made for a process pool: a ``LogStretch`` goes out, a ``WalkResult`` of plain values comes back. Reading intact records
is the business of ``record_rows``; here is what lies between them.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from gateway.store_tool.checks.index_check import IndexFaults, compare_stretch
from gateway.store_tool.checks.index_part import NearIndex
from gateway.store_tool.files.directory import open_to_read
from gateway.store_tool.files.sparse_map import sparse_map
from gateway.store_tool.records.queue_runs import QueueRun
from gateway.store_tool.records.record_rows import RecordRows
from wire.errors import RecordError
from wire.message.record_check import BLANK, check_record
from wire.message.record_layout import (
    END_OF_FILE_BYTES,
    FILLER_HEAD,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
)

TELL_BYTES = 8 << 20
"""Progress is told this often."""
_MAGIC_AT = FILLER_HEAD.offset("magic")


def _spelled(magic: int) -> re.Pattern[bytes]:
    # Not mmap.find: that of Python before 3.11.5 reads beyond the end of the map (python/cpython issue 105235), and
    # the process dies when nothing lies there.
    return re.compile(re.escape((magic & 0xFFFFFFFF).to_bytes(4, "big")), re.DOTALL)


_MAGICS = (_spelled(MAGIC_V1), _spelled(MAGIC_V2))
_BLANK_MAGIC = _spelled(MAGIC_BLANK)


@dataclass(frozen=True, slots=True)
class LogStretch:
    """Bytes ``begin`` … ``end`` of a commit log file that starts at ``start`` and has ``size`` bytes.

    The walk begins with the first intact record at or after ``begin`` (at ``begin`` itself when that is 0), and ends
    with the last one that starts before ``end``. ``index``: the index files to compare with.
    """

    path: Path
    start: int
    size: int
    begin: int
    end: int
    index: NearIndex = field(default_factory=NearIndex)


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch [position, end) of a file without an intact record; ``followed``: an intact one starts at ``end``."""

    position: int
    end: int
    reason: str
    followed: bool


@dataclass(slots=True)
class WalkResult:
    """What one stretch holds, and what its messages' keys say of the index.

    ``begin``, ``end`` and ``last_end`` are positions in the file: of the first record, where the walk stopped, and
    after the last record (0: there is none). ``is_filled``: the filler was reached.
    ``runs`` are in the order in which their first messages lie in the log; units of delayed messages have the store
    time where their files have the time of delivery.
    """

    begin: int
    end: int
    records: int = 0
    hidden: int = 0
    long_topics: int = 0
    first_stored_at_ms: int = 0
    last_stored_at_ms: int = 0
    last_end: int = 0
    is_filled: bool = False
    gaps: list[Gap] = field(default_factory=list)
    runs: list[QueueRun] = field(default_factory=list)
    index: IndexFaults = field(default_factory=IndexFaults)


def walk(stretch: LogStretch, tell: Callable[[int], None] | None = None) -> WalkResult:
    """Look at every byte of a stretch.

    :param tell: called now and then with the bytes done since the last call.
    :raises OSError: the file cannot be read.
    """
    fd = open_to_read(stretch.path)
    try:
        if stretch.size == 0:
            return WalkResult(0, 0)
        with sparse_map(fd, stretch.size, begin=stretch.begin) as data:
            return _Walk(stretch, data, tell).run()
    finally:
        os.close(fd)


class _Walk:
    """One walk."""

    def __init__(self, stretch: LogStretch, data: mmap.mmap, tell: Callable[[int], None] | None) -> None:
        self._stretch = stretch
        self._data = data
        self._tell = tell
        self._rows = RecordRows(data, stretch.start, stretch.size)
        self.result = WalkResult(stretch.begin, stretch.begin)

    def run(self) -> WalkResult:
        """See ``walk``."""
        stretch, result, rows = self._stretch, self.result, self._rows
        position = stretch.begin
        if position:
            position = next_intact(self._data, position, stretch.size, stretch.start)
        result.begin = position
        while position < stretch.end:
            before = position
            position = rows.take(position, min(position + TELL_BYTES, stretch.end))
            if position == before:
                position = self._no_record(position)
            if self._tell is not None:
                self._tell(min(position, stretch.end) - before)
        result.end = position
        result.records, result.hidden, result.long_topics = rows.records, rows.hidden, rows.long_topics
        result.first_stored_at_ms, result.last_stored_at_ms = rows.first_stored_ms, rows.last_stored_ms
        result.last_end, result.runs = rows.end, rows.runs
        base = stretch.start
        result.index = compare_stretch(
            stretch.index, rows.keys(), base + result.begin, base + max(position, stretch.end)
        )
        return result

    def _no_record(self, position: int) -> int:
        """Where to go on from a place at which no intact record starts."""
        stretch, result = self._stretch, self.result
        left = stretch.size - position
        if left < END_OF_FILE_BYTES:
            return stretch.size
        size, magic = FILLER_HEAD.unpack_from(self._data, position)
        if magic == MAGIC_BLANK and size == left:
            result.is_filled = True
            return stretch.size
        reason = self._reason(position)
        found = next_intact(self._data, position + 1, stretch.size, stretch.start)
        result.gaps.append(Gap(position, found, reason, followed=found < stretch.size))
        return found

    def _reason(self, position: int) -> str:
        stretch = self._stretch
        size, magic = FILLER_HEAD.unpack_from(self._data, position)
        try:
            checked = check_record(cast("bytes", self._data), position, stretch.start + position)
        except RecordError as error:
            return str(error)
        if checked == BLANK and magic == MAGIC_BLANK:
            return f"the filler says {size} bytes, {stretch.size - position} are left of the file"
        return "the topic is not UTF-8, or queue id or offset are negative"


def next_intact(data: mmap.mmap | memoryview, position: int, size: int, start: int) -> int:
    """Where the first intact record or filler of a file at or after ``position`` starts; ``size`` when there is none.

    Found by the magic number and the offset a record says it lies at.
    """
    end = size
    for magic in _MAGICS:
        at = position
        while found := magic.search(data, at + _MAGIC_AT, end):
            candidate = found.start() - _MAGIC_AT
            if end - candidate >= MIN_RECORD_BYTES and _is_intact(data, candidate, start):
                end = candidate
                break
            at = candidate + 1
    at = position
    while found := _BLANK_MAGIC.search(data, at + _MAGIC_AT, end):
        candidate = found.start() - _MAGIC_AT
        (filler_bytes, _) = FILLER_HEAD.unpack_from(data, candidate)
        if filler_bytes == size - candidate:
            return candidate
        at = candidate + 1
    return end


def _is_intact(data: mmap.mmap | memoryview, position: int, start: int) -> bool:
    try:
        return check_record(cast("bytes", data), position, start + position) != BLANK
    except RecordError:
        return False
