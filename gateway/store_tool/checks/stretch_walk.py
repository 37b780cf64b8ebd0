"""Walk through a stretch of the commit log: where records are, where none are, and what they say about other files.

Made for a process pool: a ``LogStretch`` goes out, and a ``WalkResult`` of plain values comes back. Intact records are
walked in the way of a recovery (``gateway.store.log.log_walk``). This module handles the bytes between intact records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.store.durability.dispatch import HIDDEN, SCHEDULE_TOPIC
from gateway.store.log.log_scan import next_record
from gateway.store.log.log_walk import LogWalk
from gateway.store_tool.checks.index_check import IndexFaults, compare_stretch
from gateway.store_tool.checks.index_part import NearIndex, StretchKeys
from gateway.store_tool.checks.queue_check import QueueRun
from gateway.store_tool.files.directory import log_part
from wire.disk.consume_queue import UNIT
from wire.disk.unit_collector import UnitCollector
from wire.errors import RecordError
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName, parse_properties
from wire.message.record_layout import END_OF_FILE_BYTES, FILLER_HEAD, MAX_TOPIC_V1_BYTES
from wire.message.tags import tags_code


@dataclass(frozen=True, slots=True)
class LogStretch:
    """The bytes ``begin`` … ``end`` of a commit log file that starts at ``start`` and has ``size`` bytes.

    The walk starts with the first intact record at or after ``begin`` (at ``begin`` itself if it is 0). The walk ends
    with the last record that starts before ``end``. ``index`` has the index files for the comparison.
    """

    path: Path
    start: int
    size: int
    begin: int
    end: int
    index: NearIndex = field(default_factory=NearIndex)


@dataclass(frozen=True, slots=True)
class Gap:
    """A part [position, end) of a file without an intact record.

    ``followed`` is True if an intact record starts at ``end``.
    """

    position: int
    end: int
    reason: str
    followed: bool


@dataclass(slots=True)
class WalkResult:
    """The content of one stretch, and what the keys of its messages show about the index.

    ``begin``, ``end`` and ``last_end`` are positions in the file: of the first record, of the end of the walk, and
    after the last record (0: there is none). ``is_filled`` is True if the filler was reached. ``runs`` are in the order
    of their first messages in the log. Units of delayed messages have the store time where the files have the time of
    delivery.
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
    return _Walk(stretch, tell).run() if stretch.size else WalkResult(0, 0)


class _Walk:
    """One walk through a stretch."""

    def __init__(self, stretch: LogStretch, tell: Callable[[int], None] | None) -> None:
        self._stretch = stretch
        self._tell = tell
        self._log = log_part(stretch.path, stretch.start, stretch.size)
        self._keys = StretchKeys()
        self._long_topics: dict[str, bool] = {}
        self._told = stretch.begin
        self.result = WalkResult(stretch.begin, stretch.begin)

    def run(self) -> WalkResult:
        """Implement ``walk``."""
        stretch, result, base = self._stretch, self.result, self._stretch.start
        collector = UnitCollector(
            unit_code=_unit_code, special_topics=(SCHEDULE_TOPIC,), inner_batches=False, seen=self._see
        )
        position = result.begin = self._next(stretch.begin) if stretch.begin else 0
        while position < stretch.end:
            log_walk = LogWalk(self._log, base + position, base + stretch.end, collector)
            log_walk.run(self._at)
            reached = max(collector.end - base, position)
            if reached < stretch.end:
                reached = self._no_record(reached, log_walk.problem)
            position = reached
            self._at(base + position)
        result.end = position
        result.records, result.last_stored_at_ms = collector.records, collector.last_stored_at_ms
        result.last_end = max(collector.end - base, 0) if collector.records else 0
        runs = [QueueRun(queue.topic, queue.queue_id, *run) for queue in collector.queues() for run in queue.runs]
        result.runs = sorted(runs, key=lambda run: UNIT.unpack_from(run.units))
        covered_end = base + max(position, stretch.end)
        result.index = compare_stretch(stretch.index, self._keys, base + result.begin, covered_end)
        return result

    def _at(self, offset: int) -> None:
        done = min(offset - self._stretch.start, self._stretch.end)
        if self._tell is not None and done > self._told:
            self._tell(done - self._told)
            self._told = done

    def _see(
        self, topic: str, queue_offset: int, sys_flag: int, offset: int, stored_at_ms: int, properties: bytes
    ) -> None:
        """Note what a record says about other files.

        :raises RecordError: the queue offset is negative.
        """
        if queue_offset < 0:
            raise RecordError(f"the queue offset {queue_offset} is negative")
        result = self.result
        result.first_stored_at_ms = result.first_stored_at_ms or stored_at_ms
        if sys_flag & HIDDEN:
            result.hidden += 1
        is_long = self._long_topics.get(topic)
        if is_long is None:
            is_long = self._long_topics[topic] = len(topic.encode()) > MAX_TOPIC_V1_BYTES
        result.long_topics += is_long
        if sys_flag & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK:
            self._keys.add(topic, parse_properties(properties), offset, stored_at_ms)

    def _no_record(self, position: int, problem: str | None) -> int:
        """Return where to go on after a place at which no intact record starts."""
        stretch, result = self._stretch, self.result
        left = stretch.size - position
        if left < END_OF_FILE_BYTES:
            return stretch.size
        if problem is None:
            size, _ = FILLER_HEAD.unpack_from(self._log.list[0].read(position, FILLER_HEAD.size))
            if size == left:
                result.is_filled = True
                return stretch.size
            problem = f"the filler says {size} bytes, {left} are left of the file"
        found = self._next(position + 1)
        reason = problem or "nothing is written here"
        result.gaps.append(Gap(position, found, reason, followed=found < stretch.size))
        return found

    def _next(self, position: int) -> int:
        """Return where the first intact record or filler at or after a position starts.

        The end of the file if there is none.
        """
        start = self._stretch.start
        found = next_record(self._log, start + position - 1, or_filler=True)
        return self._stretch.size if found is None else found - start


def _unit_code(topic: str, properties: Mapping[str, str], stored_at_ms: int) -> int:
    return stored_at_ms if topic == SCHEDULE_TOPIC else tags_code(properties.get(PropertyName.TAGS))
