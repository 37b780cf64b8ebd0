"""Check consume queues against the log: each visible message has its unit, and each unit leads to its message.

``QueueCheck`` gets the units that the log's records need, in log order, and compares them with the files as bytes.
Single units are looked at only if the bytes differ. A topic that was deleted and made again has several rows of
messages in the log; only the last row counts. Files are only read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gateway.store.disk.open_files import OpenFiles
from gateway.store.durability.dispatch import HIDDEN, SCHEDULE_TOPIC
from gateway.store.queues.deleted_topics import QueueName
from gateway.store.queues.extended_units import has_addresses, with_codes
from gateway.store.queues.queue_extension import QueueExtension
from gateway.store.recovery.earlier_lives import NOTHING
from gateway.store_tool.checks.deletions import EmptyQueues, noted_deletions
from gateway.store_tool.checks.findings import Finding, FindingKind, Findings
from gateway.store_tool.files.directory import (
    DiskFile,
    QueueFolder,
    ReadOnlyFiles,
    StoreDirectory,
    data_end,
    read_part,
)
from wire.disk.consume_queue import UNIT, UNIT_BYTES, is_filler, is_written
from wire.disk.queue_extension import is_address
from wire.disk.unit_collector import check_queue_name
from wire.errors import RecordError
from wire.message.batch import MIN_PART_BYTES, inner_offsets
from wire.message.light_queues import LIGHT_QUEUE_PREFIX
from wire.message.record import StoredMessage, parse_record

MAX_OPEN_EXTENSION_FILES = 16
MAX_WAITING_BYTES = 32 << 20
"""The largest size of the units, over all queues, that wait for the comparison.

The units of one queue are compared at once, with one look at its file.
"""
_CHUNK_UNITS = 50_000
_UNWRITTEN = (0, 0, 0)

Unit = tuple[int, int, int]
Place = tuple[str, int, int]
"""The topic, queue id and queue offset of a message."""


@dataclass(frozen=True, slots=True)
class QueueRun:
    """Neighbours in one queue: the correct units of the messages from ``first`` on."""

    topic: str
    queue_id: int
    first: int
    units: bytearray

    @property
    def end(self) -> int:
        """The queue offset after the last message."""
        return self.first + len(self.units) // UNIT_BYTES


@dataclass(frozen=True, slots=True)
class Orphan:
    """A message that is missing from the log, or ``count`` missing messages from ``place`` on.

    A message's unit says where the message was: at ``after``, with ``size`` bytes. Without units ``size`` is 0, and the
    messages were between ``after`` and ``before``.
    """

    place: Place
    after: int
    before: int
    size: int
    count: int = 1


@dataclass(slots=True)
class Row:
    """The messages that the log has of one queue.

    The row has the messages ``first`` … ``end`` without those in ``missing``: (first, end, and between which log
    offsets). ``wrong`` has the offsets whose unit differs from the correct one: (offset, expected, found). ``bare`` has
    the offsets whose unit in the extension cannot be read. ``waiting`` has the units that wait for the comparison, from
    the offset ``waiting_first`` on.
    """

    topic: str
    queue_id: int
    first: int
    end: int
    first_log_offset: int = -1
    last_log_offset: int = -1
    missing: list[tuple[int, int, int, int]] = field(default_factory=list)
    wrong: list[tuple[int, Unit, Unit]] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    misnamed: list[tuple[int, int]] = field(default_factory=list)
    delays: list[tuple[int, int, Unit]] = field(default_factory=list)
    waiting: bytearray = field(default_factory=bytearray)
    waiting_first: int = 0


class QueueCheck:
    """Check all queues: call ``add`` in log order, then ``finish``.

    :param known_topics: the topics of topics.json; None if not known.
    :param delay_of: returns the delay of a level in milliseconds.
    """

    def __init__(
        self,
        directory: StoreDirectory,
        findings: Findings,
        known_topics: frozenset[str] | None,
        delay_of: Callable[[int], int | None],
    ) -> None:
        self._directory = directory
        self._findings = findings
        self._known_topics = known_topics
        self._delay_of = delay_of
        self._reader = UnitReader(directory)
        self._deleted, remark = noted_deletions(directory)
        if remark is not None:
            findings.note(remark)
        self._extension_files = OpenFiles(ReadOnlyFiles(), MAX_OPEN_EXTENSION_FILES)
        self.rows: dict[tuple[str, int], Row] = {}
        self._waiting: dict[tuple[str, int], Row] = {}
        self._waiting_bytes = 0
        self.bad_queues: set[tuple[str, int]] = set()
        """The queues whose files have to be made again."""
        self.misplaced: dict[int, Place] = {}
        """The unit's place for each record that names another place than its unit, by the record's log offset."""
        self.orphans: list[Orphan] = []
        self.hidden: dict[QueueName, int] = {}
        """The queues whose deletion is noted nowhere, with the log offset below which the messages are gone."""
        self.deletions: list[str] = []
        """The remarks about the queues in ``hidden``."""
        self._ended_lives: dict[str, int] = {}
        self._empty_queues: EmptyQueues | None = None

    # --- feeding -------------------------------------------------------------------------------------------------

    def add(self, run: QueueRun) -> None:
        """Take the next messages of a queue."""
        name = (run.topic, run.queue_id)
        if UNIT.unpack_from(run.units)[0] < self._deleted.not_below(run.topic, run.queue_id):
            return  # of a topic that was deleted, and perhaps made again
        row = self.rows.get(name)
        first = run.first
        if row is not None and first != row.end:
            if self._stands_at(row, run):
                # Its unit is where it belongs: the record's own queue offset is wrong.
                row.misnamed.append((row.end, first))
                self.misplaced[UNIT.unpack_from(run.units)[0]] = (run.topic, run.queue_id, row.end)
                row.end += 1
                return
            if first > row.end:
                row.missing.append((row.end, first, row.last_log_offset, UNIT.unpack_from(run.units)[0]))
                row.end = first
            else:
                if first == 0:  # the topic was deleted and made again
                    ended = self._ended_lives.get(run.topic, NOTHING)
                    self._ended_lives[run.topic] = max(ended, row.last_log_offset + 1)
                row = None
        if row is None:
            row = self.rows[name] = Row(run.topic, run.queue_id, first, first, UNIT.unpack_from(run.units)[0])
        self._wait(name, row, run)
        row.end = run.end
        row.last_log_offset = UNIT.unpack_from(run.units, len(run.units) - UNIT_BYTES)[0]

    def _stands_at(self, row: Row, run: QueueRun) -> bool:
        """Return whether the next unit in the queue leads to the only record of a run."""
        if len(run.units) != UNIT_BYTES:
            return False
        expected = UNIT.unpack_from(run.units)
        return self._reader.unit(row.topic, row.queue_id, row.end)[:2] == expected[:2]

    def _wait(self, name: tuple[str, int], row: Row, run: QueueRun) -> None:
        """Keep a run for a later comparison with its neighbours."""
        before = self._waiting.get(name)
        if before is None or before is not row:  # what an earlier topic of the name waits for says nothing
            self._waiting[name] = row
            self._waiting_bytes -= 0 if before is None else len(before.waiting)
        elif row.waiting_first + len(row.waiting) // UNIT_BYTES != run.first:
            self._compare(row)
        if not row.waiting:
            row.waiting_first = run.first
        row.waiting += run.units
        self._waiting_bytes += len(run.units)
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._compare_all()

    def _compare_all(self) -> None:
        for row in self._waiting.values():
            self._compare(row)
        self._waiting.clear()

    def _compare(self, row: Row) -> None:
        """Compare the waiting units of a queue with its files."""
        first, units = row.waiting_first, row.waiting
        row.waiting = bytearray()
        self._waiting_bytes -= len(units)
        for start in range(0, len(units), _CHUNK_UNITS * UNIT_BYTES):
            # bytes: a memoryview would be compared byte by byte, much slower than both copied and compared
            expected = bytes(units[start : start + _CHUNK_UNITS * UNIT_BYTES])
            offset = first + start // UNIT_BYTES
            found = self._reader.read(row.topic, row.queue_id, offset, len(expected) // UNIT_BYTES)
            if expected != found:
                self._differ(row, offset, expected, found)

    def _differ(self, row: Row, offset: int, expected: bytes, found: bytes) -> None:
        delayed = row.topic == SCHEDULE_TOPIC
        if has_addresses(found):
            found = with_codes(self._extension(row), found)
        for wanted, unit in zip(UNIT.iter_unpack(expected), UNIT.iter_unpack(found), strict=True):
            if wanted != unit:
                is_here = wanted[:2] == unit[:2]
                if is_here and is_address(unit[2]):
                    row.bare.append(offset)
                elif is_here and delayed:
                    row.delays.append((offset, unit[2] - wanted[2], unit))
                else:
                    row.wrong.append((offset, wanted, unit))
            offset += 1

    def _extension(self, row: Row) -> QueueExtension:
        folder = self._directory.paths.extension(row.topic, row.queue_id)
        file_bytes = self._directory.settings.mapped_file_size_consume_queue_ext
        return QueueExtension(ReadOnlyFiles(), self._extension_files, folder, file_bytes)

    # --- judging -------------------------------------------------------------------------------------------------

    def finish(self, log_end: int, tell: Callable[[int], None]) -> None:
        """Report what is wrong.

        :param log_end: the end of the log; units from there on are ahead of the log.
        :param tell: called with the bytes of each finished queue.
        """
        self._compare_all()
        for name, row in self.rows.items():
            if not self._was_deleted(name, row):
                self._judge_row(row)
        self._tell_deletions()
        for name, folder in self._directory.queues.items():
            self._judge_files(folder)
            self._judge_others(folder, self.rows.get(name), log_end)
            tell(sum(file.size for file in folder.files))

    def _was_deleted(self, name: QueueName, row: Row) -> bool:
        """Return whether a queue has no message in its files because it was deleted."""
        if not row.wrong:
            return False
        if self._reader.has_units(name):
            return False
        if self.empty_queues.were_deleted(name, row.first_log_offset, self._ended_lives.get(row.topic, NOTHING)):
            self.hidden[name] = row.last_log_offset + 1
            return True
        if name not in self._directory.queues and self._is_unknown(row.topic):
            self._tell_unknown(row.topic)
            return True
        return False

    @property
    def empty_queues(self) -> EmptyQueues:
        """The judge of queues without a message in their files."""
        if self._empty_queues is None:
            covered_end = self._reader.covered_end()
            self._empty_queues = EmptyQueues(self._directory, covered_end, self._known_topics)
        return self._empty_queues

    def _is_unknown(self, topic: str) -> bool:
        return self._known_topics is not None and topic not in self._known_topics

    def _tell_unknown(self, topic: str) -> None:
        self._findings.note(f"topic {topic} is in the log but not in config/topics.json and has no queues: deleted")

    def _tell_deletions(self) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, queue_id in self.hidden:
            by_topic.setdefault(topic, []).append(queue_id)
        for topic, queue_ids in by_topic.items():
            if self._is_unknown(topic):
                self._tell_unknown(topic)
                continue
            which = ", ".join(map(str, sorted(queue_ids)))
            queues = (
                f"queues {which} of topic {topic} have" if len(queue_ids) > 1 else f"queue {which} of topic {topic} has"
            )
            self.deletions.append(
                f"{queues} no files, and nothing shows that any were lost: what the log has there is of an earlier "
                "topic of this name, which was deleted"
            )
        for line in self.deletions:
            self._findings.note(line)

    def _judge_row(self, row: Row) -> None:
        self._judge_delays(row)
        self._judge_missing(row)
        for offset, said in row.misnamed:
            self._misnamed(row, offset, f"queue offset {said}")
        absent = [offset for offset, _, unit in row.wrong if not is_written(unit[0], unit[1])]
        ahead = self._directory.killed and absent == list(range(row.end - len(absent), row.end))
        for first, last in _ranges(absent):
            self._add(
                row,
                (first, last),
                FindingKind.QUEUE,
                f"messages {first} … {last} have no unit" if last > first else f"message {first} has no unit",
                settles=ahead,
            )
        for first, last in _ranges(row.bare):
            units = f"units {first} … {last} have" if last > first else f"unit {first} has"
            what = f"{units} no tags code: consumequeue_ext is missing or damaged there"
            self._add(row, (first, last), FindingKind.UNIT, what)
        for offset, wanted, unit in row.wrong:
            if is_written(unit[0], unit[1]):
                # A delay queue has the time of delivery there, which only the record's level tells.
                members = 2 if row.topic == SCHEDULE_TOPIC else 3
                what = _difference(wanted[:members], unit[:members])
                self._add(row, (offset, offset), FindingKind.UNIT, what, log_offset=wanted[0])

    def _judge_delays(self, row: Row) -> None:
        """Report delayed messages with a wrong time of delivery.

        All messages of a level wait equally long. A changed messageDelayLevel may have made several groups.
        """
        times = Counter(delay for _, delay, _ in row.delays)
        configured = self._delay_of(row.queue_id + 1)
        for offset, delay, unit in row.delays:
            if times[delay] == 1 and delay != configured:
                what = f"the unit says delivery at {unit[2]}, {delay} ms after it was stored"
                self._add(row, (offset, offset), FindingKind.UNIT, what, log_offset=unit[0])

    def _judge_missing(self, row: Row) -> None:
        """Judge the offsets that no record claims: either the record is damaged, or it claims another place."""
        for first, end, after, before in row.missing:
            if (end - first) * MIN_PART_BYTES > before - after:
                what = (
                    f"messages {first} … {end - 1} are not in the log: so many that an offset is likely to be damaged"
                )
                self._add(row, (first, end - 1), FindingKind.QUEUE, what)
                continue
            elsewhere = self._look_for(row, first, end, after, before)
            for one, next_one in pairwise((first - 1, *elsewhere, end)):
                low, high = one + 1, next_one - 1
                if low <= high:
                    what = f"messages {low} … {high} are" if high > low else f"message {low} is"
                    self._add(row, (low, high), FindingKind.QUEUE, f"{what} not in the log")

    def _look_for(self, row: Row, first: int, end: int, after: int, before: int) -> list[int]:
        """Note as orphans the messages [first, end) that are gone; return the offsets that do have a record."""
        elsewhere: list[int] = []
        unplaced = first
        for offset, unit in self._reader.between(row.topic, row.queue_id, first, end):
            found = _record_at(self._directory, unit)
            if found is None and not after < unit[0] < before:
                continue
            self._lose(row, unplaced, offset, after, before)
            unplaced = offset + 1
            if found is None:
                self.orphans.append(Orphan((row.topic, row.queue_id, offset), unit[0], before, unit[1]))
                continue
            elsewhere.append(offset)
            if not _is_further_unit(row.topic, row.queue_id, offset, found):
                self.misplaced[unit[0]] = (row.topic, row.queue_id, offset)
                self._misnamed(row, offset, _place_of(found))
        self._lose(row, unplaced, end, after, before)
        return elsewhere

    def _lose(self, row: Row, first: int, end: int, after: int, before: int) -> None:
        """Note missing messages without units."""
        if first < end:
            self.orphans.append(Orphan((row.topic, row.queue_id, first), after, before, 0, end - first))

    def _misnamed(self, row: Row, offset: int, claims: str) -> None:
        unit = self._reader.unit(row.topic, row.queue_id, offset)
        file = self._directory.log_file_at(unit[0])
        assert file is not None, "the record was read from it"
        self._findings.add(
            Finding(
                FindingKind.RECORD,
                file.path,
                f"the record says {claims}, its consume queue unit says otherwise",
                position=unit[0] - file.start,
                commit_log_offset=unit[0],
                commit_log_end=unit[0] + unit[1],
                topic=row.topic,
                queue_id=row.queue_id,
                queue_offset=offset,
            )
        )

    def _judge_files(self, folder: QueueFolder) -> None:
        wanted = self._directory.queue_file_bytes
        for number, file in enumerate(folder.files):
            expected = folder.files[0].start + number * wanted
            if file.size != wanted:
                self._add_file(folder, file, f"has {file.size} bytes, a consume queue file here has {wanted}")
            elif file.start != expected or file.start % wanted:
                self._add_file(folder, file, f"stands where the file of byte {expected} of the queue should be")
        if folder.files and (behind := self._reader.behind_end(folder)) is not None:
            file, position = behind
            self._add_file(folder, file, "something is written behind the end of the queue", position=position)

    def _judge_others(self, folder: QueueFolder, row: Row | None, log_end: int) -> None:
        """Judge the units whose messages are not in the log. A unit older than the log is fine."""
        log_min = self._directory.log_min
        stray: list[int] = []
        ahead: list[int] = []
        skip = (row.first, row.end) if row is not None else (0, 0)
        limit = self._deleted.not_below(folder.topic, folder.queue_id)
        for offset, unit in self._reader.written(folder, skip):
            if unit[0] < limit and row is None:
                self._findings.note(
                    f"topic {folder.topic} was deleted; files of its queues came back, and the next start removes them"
                )
                return
            if is_filler(unit[0], unit[1]) or unit[0] < log_min:
                if row is not None and offset >= row.end:
                    stray.append(offset)
            elif unit[0] >= log_end:
                ahead.append(offset)
            else:
                found = _record_at(self._directory, unit)
                if found is not None and _is_further_unit(folder.topic, folder.queue_id, offset, found):
                    continue
                stray.append(offset)
                if found is None:
                    self.orphans.append(Orphan((folder.topic, folder.queue_id, offset), unit[0], log_end, unit[1]))
        place = Row(folder.topic, folder.queue_id, 0, 0)
        for first, last in _ranges(stray):
            what = f"units {first} … {last} lead" if last > first else f"unit {first} leads"
            self._add(place, (first, last), FindingKind.UNIT, f"{what} to no message of this queue")
        for first, last in _ranges(ahead):
            what = f"units {first} … {last} lead" if last > first else f"unit {first} leads"
            self._add(
                place,
                (first, last),
                FindingKind.UNIT,
                f"{what} beyond the end of the commit log, {log_end}",
                settles=True,
            )

    # --- telling -------------------------------------------------------------------------------------------------

    def _add(
        self,
        row: Row,
        offsets: tuple[int, int],
        kind: FindingKind,
        what: str,
        *,
        log_offset: int | None = None,
        settles: bool = False,
    ) -> None:
        """Note what is wrong with the messages from the first to the last of ``offsets``."""
        offset, last = offsets
        if not settles:
            self.bad_queues.add((row.topic, row.queue_id))
        file_bytes = self._directory.queue_file_bytes
        position = offset * UNIT_BYTES
        start = position - position % file_bytes
        self._findings.add(
            Finding(
                kind,
                self._directory.paths.queue(row.topic, row.queue_id) / f"{start:020d}",
                what,
                settles=settles,
                position=position - start,
                commit_log_offset=log_offset,
                topic=row.topic,
                queue_id=row.queue_id,
                queue_offset=offset,
                count=last - offset + 1,
            )
        )

    def _add_file(self, folder: QueueFolder, file: DiskFile, what: str, *, position: int | None = None) -> None:
        self.bad_queues.add((folder.topic, folder.queue_id))
        self._findings.add(
            Finding(
                FindingKind.QUEUE,
                file.path,
                what,
                position=position,
                topic=folder.topic,
                queue_id=folder.queue_id,
            )
        )


class UnitReader:
    """Read units of any queue. Units that no file has read as zeros."""

    def __init__(self, directory: StoreDirectory) -> None:
        self._directory = directory
        self._file_bytes = directory.queue_file_bytes

    def read(self, topic: str, queue_id: int, offset: int, count: int) -> bytes:
        """Return ``count`` units from ``offset`` on."""
        folder = self._directory.queues.get((topic, queue_id))
        parts = []
        position, end = offset * UNIT_BYTES, (offset + count) * UNIT_BYTES
        while position < end:
            start = position - position % self._file_bytes
            size = min(end, start + self._file_bytes) - position
            data = b"" if folder is None else _pread(folder, start, size, position - start)
            parts.append(data.ljust(size, b"\x00"))
            position += size
        return b"".join(parts)

    def unit(self, topic: str, queue_id: int, offset: int) -> Unit:
        """Return one unit; zeros if there is none."""
        unit: Unit = UNIT.unpack_from(self.read(topic, queue_id, offset, 1))
        return unit

    def written(self, folder: QueueFolder, skip: tuple[int, int]) -> Iterator[tuple[int, Unit]]:
        """Yield the written units of a queue with their offsets, without the units in [skip)."""
        for file in folder.files:
            first = file.start // UNIT_BYTES
            for low, high in _without(first, first + self._used_units(file), skip):
                yield from self._written(folder, low, high)

    def has_units(self, name: QueueName) -> bool:
        """Return whether the files of a queue have any written unit."""
        folder = self._directory.queues.get(name)
        return folder is not None and any(map(self._used_units, folder.files))

    def covered_end(self) -> int:
        """Return the log offset after the last message that any queue has; −1 if no queue has one."""
        return max(map(self.end_of, self._directory.queues), default=-1)

    def end_of(self, name: QueueName) -> int:
        """Return the log offset after the last message of a queue; −1 if it has none."""
        folder = self._directory.queues.get(name)
        for file in reversed(folder.files) if folder is not None else ():
            if used := self._used_units(file):
                position, size, _ = self.unit(*name, file.start // UNIT_BYTES + used - 1)
                return -1 if is_filler(position, size) else position + size
        return -1

    def between(self, topic: str, queue_id: int, first: int, end: int) -> Iterator[tuple[int, Unit]]:
        """Yield the written units of [first, end) with their offsets. The work grows with the content of the files."""
        folder = self._directory.queues.get((topic, queue_id))
        if folder is None:
            return
        for file in folder.files:
            begin = file.start // UNIT_BYTES
            if file.start % self._file_bytes == 0 and begin < end:
                yield from self._written(folder, max(first, begin), min(end, begin + self._used_units(file)))

    def _written(self, folder: QueueFolder, low: int, high: int) -> Iterator[tuple[int, Unit]]:
        for offset in range(low, high, _CHUNK_UNITS):
            part = self.read(folder.topic, folder.queue_id, offset, min(_CHUNK_UNITS, high - offset))
            for number, unit in enumerate(UNIT.iter_unpack(part), offset):
                if is_written(unit[0], unit[1]):
                    yield number, unit

    def behind_end(self, folder: QueueFolder) -> tuple[DiskFile, int] | None:
        """Return the file and position of data after the first unwritten unit; None if there is no such data."""
        ended = False
        for file in folder.files:
            with file.path.open("rb") as opened:
                data = opened.read(self._used_units(file) * UNIT_BYTES)
            position = 0 if ended else _unwritten_at(data)
            rest = data[position:].lstrip(b"\x00")
            if rest:
                return file, len(data) - len(rest)
            ended = ended or position < file.size
        return None

    def _used_units(self, file: DiskFile) -> int:
        """Return how many units a file has up to the last written unit. Bytes after the usual size are ignored."""
        return -(-data_end(file.path, min(file.size, self._file_bytes)) // UNIT_BYTES)


def _unwritten_at(data: bytes) -> int:
    """Return the position of the first unwritten unit, or the length of the data."""
    position = data.find(_ZERO_UNIT)
    while position >= 0 and position % UNIT_BYTES:
        position = data.find(_ZERO_UNIT, position + 1)
    return len(data) if position < 0 else position


_ZERO_UNIT = bytes(UNIT_BYTES)


def _pread(folder: QueueFolder, start: int, size: int, position: int) -> bytes:
    for file in folder.files:
        if file.start == start:
            return read_part(file.path, position, size)
    return b""


def _place_of(message: StoredMessage) -> str:
    """Return the place that a record names, as text."""
    hidden = " and hides from queues" if message.sys_flag & HIDDEN else ""
    return f"{message.topic} queue {message.queue_id} offset {message.queue_offset}{hidden}"


def _is_further_unit(topic: str, queue_id: int, offset: int, message: StoredMessage) -> bool:
    """Return if a message has a unit here besides the one at its own offset: in a light queue, or for its batch."""
    if topic.startswith(LIGHT_QUEUE_PREFIX):
        return True  # units do not name their record's topic
    is_own = (message.topic, message.queue_id) == (topic, queue_id)
    return is_own and offset in inner_offsets(message)[1:]


def _record_at(directory: StoreDirectory, unit: Unit) -> StoredMessage | None:
    """Return the intact record that a unit leads to; None if there is none."""
    file = directory.log_file_at(unit[0])
    if (
        file is None
        or not is_written(unit[0], unit[1])
        or unit[0] - file.start + unit[1] > min(file.size, directory.log_file_bytes)
    ):
        return None
    try:
        message = parse_record(read_part(file.path, unit[0] - file.start, unit[1]), check_crc=True)
        check_queue_name(message.topic, message.queue_id)
    except RecordError:
        return None
    return message if (message.commit_log_offset, message.total_size) == unit[:2] else None


def _difference(wanted: Sequence[int], unit: Sequence[int]) -> str:
    names = ("commit log offset", "size", "tags code")
    parts = [
        f"{name} {found} instead of {right}"
        for name, right, found in zip(names, wanted, unit, strict=False)
        if right != found
    ]
    return f"the unit has {', '.join(parts)}"


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Return rising numbers as ranges, with both ends included."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _without(low: int, high: int, skip: tuple[int, int]) -> list[tuple[int, int]]:
    parts = [(low, min(high, skip[0])), (max(low, skip[1]), high)] if skip[0] < skip[1] else [(low, high)]
    return [part for part in parts if part[0] < part[1]]
