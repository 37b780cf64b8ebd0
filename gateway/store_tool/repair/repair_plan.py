"""The plan of a repair, decided from the findings of a verification. Nothing is changed here.

log       a gap between intact records is filled with stand-ins (``stand_in``), a gap at the end of a file with
          a filler; a record that names another place than its unit gets the unit's; a cut file gets its size
          back; a file after the end, which can only be a copy of another one, is moved away
derived   consume queues and index files that differ from the log are moved away, and made again from the log
config    an unreadable file is replaced by its backup
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path

from gateway.store.disk.entry_kinds import Misfit
from gateway.store.disk.paths import offset_name, printable
from gateway.store.queues.deleted_topics import QueueName
from gateway.store_tool.checks.checkpoint_check import read_checkpoint
from gateway.store_tool.checks.config_check import ConfigState, config_states
from gateway.store_tool.checks.findings import FindingKind
from gateway.store_tool.checks.queue_check import Place
from gateway.store_tool.checks.verification import LogGap, Verification
from gateway.store_tool.errors import CannotRun
from gateway.store_tool.files.directory import DiskFile, StoreDirectory, data_end, read_part, record_at
from gateway.store_tool.repair.stand_in import (
    LEAST_HIDDEN_BYTES,
    build_hidden,
    build_stand_in,
    good_stand_in_bytes,
    least_stand_in_bytes,
)
from wire.disk.index_file import IndexShape
from wire.message.record import END_OF_FILE_BYTES, build_blank, reposition

MAX_MADE_FILES = 10_000
"""The largest number of commit log files that a repair makes between two others: 10 TiB of log."""


@dataclass(frozen=True, slots=True)
class LogChange:
    """New bytes for a place of a commit log file. The ``replaced`` old bytes from there on are kept aside first."""

    path: Path
    position: int
    commit_log_offset: int
    data: bytes
    replaced: int
    what: str


@dataclass(slots=True)
class RepairPlan:
    """All steps of a repair, in their order."""

    directory: StoreDirectory
    misfits: list[Misfit] = field(default_factory=list)
    resized: list[tuple[Path, int]] = field(default_factory=list)
    changes: list[LogChange] = field(default_factory=list)
    cut_tail: bool = False
    surplus: list[Path] = field(default_factory=list)
    """The commit log files after the end of the log, the last first."""
    lost_begin: tuple[int, int] | None = None
    """The offset at which the log should start, and the offset at which it does; None if no start of the log is lost.
    """
    hidden: Mapping[QueueName, int] = field(default_factory=dict)
    """The deleted queues whose deletion is noted nowhere: the log offset below which their messages are gone."""
    another: bool = False
    """True if another broker served the directory last."""
    queues: list[tuple[str, int]] = field(default_factory=list)
    index_files: list[Path] = field(default_factory=list)
    checkpoint: bool = False
    keeps_checkpoint: bool = False
    """True if the checkpoint's marks of the index hold. Intact index files then stay."""
    configs: list[ConfigState] = field(default_factory=list)
    lost_messages: list[Place] = field(default_factory=list)
    index_shape: IndexShape | None = None

    @property
    def rebuilds(self) -> bool:
        """True if derived files have to be made again from the log."""
        return bool(
            self.misfits
            or self.resized
            or self.changes
            or self.cut_tail
            or self.surplus
            or self.lost_begin
            or self.queues
            or self.index_files
            or self.checkpoint
        )

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do."""
        return not (self.rebuilds or self.configs)

    def lines(self) -> list[str]:
        """Return the plan as lines for people."""
        lines = [f"move {misfit.path} away: it {misfit.what}" for misfit in self.misfits]
        lines += [f"give {path} its size of {size} bytes again" for path, size in self.resized]
        lines += [
            f"{change.path} byte {change.position} (commit log offset {change.commit_log_offset}): {change.what}"
            for change in self.changes
        ]
        if self.lost_begin is not None:
            expected, begin = self.lost_begin
            lines.append(f"accept that the log begins at {begin}: {begin - expected} bytes of messages are lost")
        lines += [f"move {path} away: it is a copy of another commit log file" for path in self.surplus]
        if self.cut_tail:
            lines.append("cut what is written behind the last intact record of the commit log")
        lines += [f"make queue {queue_id} of {topic} again from the commit log" for topic, queue_id in self.queues]
        lines += [f"make index file {path} again from the commit log" for path in self.index_files]
        if self.checkpoint:
            lines.append(f"write {self.directory.paths.checkpoint} anew")
        for state in self.configs:
            if state.fault is not None and state.backup_exists and state.backup_fault is None:
                lines.append(f"restore {state.path} from its backup")
            elif state.fault is not None:
                lines.append(f"move {state.path} away; there is no readable backup")
            if state.backup_fault is not None:
                lines.append(f"move {state.backup} away")
        return [printable(line) for line in lines]


def make_plan(verification: Verification) -> RepairPlan:
    """Make the plan that removes everything that was found.

    :raises CannotRun: a finding cannot be repaired here; the text says what to do instead.
    """
    directory = verification.directory
    plan = RepairPlan(directory)
    plan.misfits = directory.misfits
    plan.lost_begin = verification.lost_begin
    plan.hidden, plan.another = verification.queues.hidden, verification.queues.empty_queues.another
    plan.surplus = _surplus(verification)
    gaps = _with_missing_files(plan, verification)
    _Filling(plan, verification).fill(gaps)
    _mend_misplaced(plan, verification)
    outline = verification.outline
    plan.cut_tail = any(gap.begin >= outline.end and gap.file.path not in plan.surplus for gap in outline.gaps)
    touched = {(place[0], place[1]) for place in plan.lost_messages}
    plan.queues = sorted(name for name in verification.queues.bad_queues | touched if name in directory.queues)
    missing_queues = verification.queues.bad_queues - directory.queues.keys()
    kinds = {finding.kind for finding in verification.findings.damage}
    plan.checkpoint = FindingKind.CHECKPOINT in kinds or bool(missing_queues)
    plan.keeps_checkpoint = not plan.checkpoint and _index_marks_hold(verification)
    plan.index_files = _index_files(plan, verification)
    plan.index_shape = verification.parts[0].shape if verification.parts else None
    plan.configs = [state for state in config_states(directory) if state.fault or state.backup_fault]
    return plan


def _index_files(plan: RepairPlan, verification: Verification) -> list[Path]:
    """Return the bad index files and all later ones.

    The file that knows the first changed message counts as bad. All files are returned if the index marks do not hold,
    because a start would not believe the files.
    """
    files = [file.path for file in verification.directory.index_files]
    if plan.rebuilds and not plan.keeps_checkpoint:
        return files
    usable = {part.path: part for part in verification.parts}
    first_change = min((change.commit_log_offset for change in plan.changes), default=None)
    for number, path in enumerate(files):
        part = usable.get(path)
        is_bad = path in verification.index.bad_files or part is None
        if part is not None and first_change is not None and part.head.end_commit_log_offset >= first_change:
            is_bad = True
        if is_bad:
            return files[number:]
    return []


def _index_marks_hold(verification: Verification) -> bool:
    """Return whether a start after a kill would keep the present index files, according to the present checkpoint."""
    if not verification.directory.paths.checkpoint.is_file():
        return False
    times, marks = read_checkpoint(verification.directory)
    ends = [(part.head.end_commit_log_offset, part.head.end_ms) for part in verification.parts]
    if marks is not None:
        return all(offset <= marks.index.last_offset for offset, _ in ends)
    return all(ms <= times.index_stored_at_ms for _, ms in ends)


def _surplus(verification: Verification) -> list[Path]:
    """Return the written files after the end of the log that can only be copies of other files.

    A file whose right name is free is left out, because such a file is no copy but has the wrong name.
    """
    directory, end = verification.directory, verification.outline.end
    starts = {file.start for file in directory.log_files}
    found = []
    for file in reversed(directory.log_files):
        if file.start < end or file.start == directory.log_min:
            break
        message = record_at(file.path, 0, check_crc=True)
        if message is None or message.commit_log_offset == file.start:
            continue
        if message.commit_log_offset not in starts and not message.commit_log_offset % directory.log_file_bytes:
            continue  # the only one there is: it has the wrong name, which a person has to say
        found.append(file.path)
    return found


def _with_missing_files(plan: RepairPlan, verification: Verification) -> list[LogGap]:
    """Return the gaps to fill. A cut file's gap reaches to the full size, and a missing file is one gap.

    :raises CannotRun: a file is too long and written to, has the wrong name, or too many files are missing.
    """
    directory, outline = verification.directory, verification.outline
    size = directory.log_file_bytes
    gaps = [gap for gap in outline.gaps if gap.begin < outline.end]
    files = [file for file in directory.log_files if file.path not in plan.surplus]
    for number, file in enumerate(files):
        if file.size > size:
            if data_end(file.path, file.size) > size:
                raise CannotRun(
                    f"{file.path} has {file.size} bytes, more than the others ({size}), and they are written to; "
                    "restore it from a copy"
                )
            plan.resized.append((file.path, size))
        if file.size < size:
            plan.resized.append((file.path, size))
            full = DiskFile(file.path, file.start, size, file.used_bytes)
            begin = max(
                (gap.begin for gap in gaps if gap.file == file and gap.end == file.start + file.size), default=-1
            )
            gaps = [gap for gap in gaps if gap.begin != begin or gap.file != file]
            if file.start + file.size <= outline.end or number < len(files) - 1:
                begin = file.start + file.size if begin < 0 else begin
                gaps.append(LogGap(full, begin, file.start + size, "cut off", followed=False))
    starts = {file.start for file in files}
    _refuse_far_files(files, size)
    for start in range(directory.log_min, max(starts, default=0), size):
        if start not in starts:
            path = directory.paths.commit_log / offset_name(start)
            plan.resized.append((path, size))
            gaps.append(LogGap(DiskFile(path, start, size, 0), start, start + size, "missing", followed=False))
    for gap in outline.gaps:
        if gap.file.path not in plan.surplus:
            _refuse_misnamed(gap)
    return sorted(gaps, key=lambda gap: gap.begin)


def _refuse_far_files(files: Sequence[DiskFile], size: int) -> None:
    """Refuse to make too many files between two others.

    :raises CannotRun: more files are missing than a repair makes.
    """
    for before, file in pairwise(files):
        missing = (file.start - before.start) // size - 1
        if missing > MAX_MADE_FILES:
            raise CannotRun(
                f"{missing} files are missing before {file.path}, more than a repair makes ({MAX_MADE_FILES}); it has "
                "the name of another store's file: move it away or give it its name"
            )


def _refuse_misnamed(gap: LogGap) -> None:
    """Refuse a file whose intact records belong to another place. The file is not damaged but has the wrong name.

    :raises CannotRun: the file has the wrong name.
    """
    if gap.begin != gap.file.start or not gap.file.path.exists():
        return
    message = record_at(gap.file.path, 0, check_crc=True)
    if message is not None and message.commit_log_offset != gap.begin and not message.commit_log_offset % gap.file.size:
        raise CannotRun(
            f"{gap.file.path} holds the records of commit log offset {message.commit_log_offset}; "
            f"give it the name {offset_name(message.commit_log_offset)}, unless the file there is intact and this one "
            f"a copy of it, and restore the file of {gap.begin}"
        )


class _Filling:
    """Fill gaps with stand-ins."""

    def __init__(self, plan: RepairPlan, verification: Verification) -> None:
        self._plan = plan
        self._directory = verification.directory
        self._last_ms = verification.outline.last_stored_at_ms
        known = verification.queues.orphans
        self._placed = sorted((orphan for orphan in known if orphan.size), key=lambda orphan: orphan.after)
        self._unplaced = [orphan for orphan in known if not orphan.size]
        self._taken: set[Place] = set()

    def fill(self, gaps: Sequence[LogGap]) -> None:
        """Plan the changes of all gaps, in log order."""
        for gap in gaps:
            self._fill(gap)

    def _fill(self, gap: LogGap) -> None:
        to_file_end = gap.end == gap.file.start + gap.file.size and not gap.followed
        slots = self._slots(gap, END_OF_FILE_BYTES if to_file_end else 0)
        stored_ms = self._stored_ms(gap)
        parts: list[bytes] = []
        position = gap.begin
        for number, (start, size, place) in enumerate(slots):
            if 0 < start - position < LEAST_HIDDEN_BYTES:
                size, start = size + start - position, position
            if start > position:
                parts.append(build_hidden(position, start - position, stored_ms))
            end = slots[number + 1][0] if number + 1 < len(slots) else gap.end
            if 0 < end - start - size < LEAST_HIDDEN_BYTES and not (to_file_end and end == gap.end):
                size = end - start
            parts.append(build_stand_in(place, start, size, stored_ms))
            position = start + size
            self._plan.lost_messages.append(place)
        if to_file_end:
            parts.append(build_blank(gap.end - position))
        elif position < gap.end:
            if gap.end - position < LEAST_HIDDEN_BYTES:
                raise CannotRun(
                    f"{gap.file.path} byte {gap.begin - gap.file.start}: {gap.end - position} bytes are too few "
                    "for any record; restore the file from a copy"
                )
            parts.append(build_hidden(position, gap.end - position, stored_ms))
        what = f"replace {gap.end - gap.begin} bytes ({gap.reason}) by "
        what += f"stand-ins for {len(slots)} messages" if slots else "what both brokers read over"
        data = b"".join(parts)
        at = gap.begin - gap.file.start
        self._plan.changes.append(
            LogChange(gap.file.path, at, gap.begin, data, len(data) if to_file_end else gap.end - gap.begin, what)
        )

    def _slots(self, gap: LogGap, reserved: int) -> list[tuple[int, int, Place]]:
        """Return (log offset, size, place) of the messages that were in a gap, as far as they are known."""
        slots: list[tuple[int, int, Place]] = []
        position, end = gap.begin, gap.end - reserved
        for orphan in self._placed:
            fits = position <= orphan.after and orphan.after + orphan.size <= end
            if fits and orphan.place not in self._taken and orphan.size >= least_stand_in_bytes(orphan.place[0]):
                slots.append((orphan.after, orphan.size, orphan.place))
                self._taken.add(orphan.place)
                position = orphan.after + orphan.size
        own = None if slots and slots[0][0] == gap.begin else self._own_place(gap, slots[0][0] if slots else end)
        if own is not None:
            slots.insert(0, own)
            self._taken.add(own[2])
        slots += self._new_slots(gap, slots, end)
        return sorted(slots)

    def _new_slots(
        self, gap: LogGap, placed: Sequence[tuple[int, int, Place]], end: int
    ) -> list[tuple[int, int, Place]]:
        """Return slots, in the room that is left, for messages of which only their queue neighbours are known."""
        slots: list[tuple[int, int, Place]] = []
        rooms = _rooms(gap.begin, end, placed)
        most = (end - gap.begin) // least_stand_in_bytes("")
        wanted = list(islice(self._unplaced_in(gap), most))
        for number, place in enumerate(wanted):
            topic = place[0]
            least = least_stand_in_bytes(topic)
            room = next((room for room in rooms if room[1] - room[0] >= least), None)
            if room is None:
                continue
            share = (room[1] - room[0]) // (len(wanted) - number)
            size = max(min(good_stand_in_bytes(topic), share), least)
            slots.append((room[0], size, place))
            self._taken.add(place)
            room[0] += size
        return slots

    def _unplaced_in(self, gap: LogGap) -> Iterator[Place]:
        """Yield the messages that may have been in a gap and have no slot yet."""
        for orphan in self._unplaced:
            if orphan.after < gap.begin < orphan.before:
                topic, queue_id, first = orphan.place
                places = ((topic, queue_id, offset) for offset in range(first, first + orphan.count))
                yield from (place for place in places if place not in self._taken)

    def _own_place(self, gap: LogGap, end: int) -> tuple[int, int, Place] | None:
        """Return offset, size and place from a record of which only the body is damaged; None without such a record."""
        message = record_at(gap.file.path, gap.begin - gap.file.start, check_crc=False)
        if message is None or message.commit_log_offset != gap.begin or message.sys_flag & 4:
            return None
        place = (message.topic, message.queue_id, message.queue_offset)
        if place in self._taken or gap.begin + message.total_size > end or message.queue_offset < 0:
            return None
        return gap.begin, message.total_size, place

    def _stored_ms(self, gap: LogGap) -> int:
        """Return when the next intact message was stored, so that store times do not fall."""
        for offset in (gap.end, gap.file.start + gap.file.size):  # a filler may come between
            file = self._directory.log_file_at(offset)
            following = None if file is None else record_at(file.path, offset - file.start, check_crc=False)
            if following is not None:
                return following.stored_at_ms
        return self._last_ms


def _rooms(begin: int, end: int, placed: Sequence[tuple[int, int, Place]]) -> list[list[int]]:
    """Return [begin, end] of the free parts of a stretch."""
    rooms = []
    for start, size, _ in placed:
        if start > begin:
            rooms.append([begin, start])
        begin = max(begin, start + size)
    return [*rooms, [begin, end]] if begin < end else rooms


def _mend_misplaced(plan: RepairPlan, verification: Verification) -> None:
    """Give a record whose body is intact the place that its consume queue knows."""
    for offset, place in sorted(verification.queues.misplaced.items()):
        file = verification.directory.log_file_at(offset)
        assert file is not None, "the record was read from it"
        position = offset - file.start
        message = record_at(file.path, position, check_crc=True)
        if message is None:
            continue
        if (message.topic, message.queue_id) == place[:2] and not message.sys_flag & 4:
            record = read_part(file.path, position, message.total_size)
            data = bytes(
                reposition(record, queue_offset=place[2], commit_log_offset=offset, stored_at_ms=message.stored_at_ms)
            )
            what = f"write queue offset {place[2]} instead of {message.queue_offset} into the record"
        else:
            data = build_stand_in(place, offset, message.total_size, message.stored_at_ms)
            plan.lost_messages.append(place)
            what = f"put a stand-in for {place[0]} queue {place[1]} offset {place[2]} in the place of the record"
        plan.changes.append(LogChange(file.path, position, offset, data, message.total_size, what))
