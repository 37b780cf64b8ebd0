"""The opening of a store that was closed, killed or damaged: find the log's end and make derived files agree with it.

    1  choose where to start: after the last message of the consume queues (clean), at the checkpoint (unclean)
    2  walk the log from there, once: check every record and gather consume queue units in memory
    3  where the records end: nothing after → done; bytes of a crash that were not yet durable → copy them aside
       and erase them; anything else (``log_tail`` says how it is recognised) → refuse to start, change nothing
    4  forget the units that the queues have of that range, and write the gathered ones
    5  rebuild queues that lost files by walking the whole log

Upstream: ``CommitLog.recoverNormally`` and ``recoverAbnormally``, which cut the log at the first bad record, whatever
follows, and keep no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from gateway.settings.store import StoreSettings
from gateway.store.disk.paths import offset_name
from gateway.store.durability.dispatch import SCHEDULE_TOPIC, UnitDispatch
from gateway.store.durability.store_files import StoreFiles
from gateway.store.errors import ForeignFile, LogBeginsLate
from gateway.store.index.index_file import newest_end_offsets
from gateway.store.log.log_scan import LogScan, is_record_at
from gateway.store.log.log_walk import MAX_COLLECTED_UNITS, LogWalk
from gateway.store.queues.unit_writer import UnitWriter
from gateway.store.recovery.earlier_lives import NOTHING, EarlierLives, ended_lives
from gateway.store.recovery.log_tail import LogTail
from gateway.store.recovery.recovery_report import RecoveryReport
from gateway.telemetry.logs import EventLog
from wire.disk.consume_queue import UNIT, UNIT_BYTES
from wire.disk.unit_collector import QueueName, UnitCollector

log = EventLog("store")

PROGRESS_BYTES = 64 * 1024 * 1024
"""The number of bytes after which progress is reported."""
PROGRESS_LINE_BYTES = 512 * 1024 * 1024
"""The number of bytes after which progress is logged: about once a second."""
MAX_NAMED = 10
"""The most deleted queues that a remark names."""
_MIB = 1024 * 1024

Progress = Callable[[int, int], None]
"""A function that is called with (bytes done, bytes in all) during a long walk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The known facts about the run that wrote to the store last."""

    clean: bool
    """True if that run closed the store."""
    same_system: bool
    """True if the system has been running since, so that it lost nothing."""
    listed_end: int
    """The end of the log when the list of the queues was written; −1 if unknown."""
    of_another: bool = False
    """True if another broker served the directory."""


class Recovery:
    """One recovery: everything that it needs, and ``run``.

    :param files: the files of the store; the deleted topics are already loaded.
    :param topics: returns the topics of another broker's table; None if they are unknown.
    """

    def __init__(
        self,
        files: StoreFiles,
        dispatch: UnitDispatch,
        last_run: LastRun,
        *,
        settings: StoreSettings,
        progress: Progress | None = None,
        topics: Callable[[], Container[str] | None] = lambda: None,
    ) -> None:
        self._files = files.layer
        self._paths = files.paths
        self._log = files.log
        self._queues = files.queues
        self._dispatch = dispatch
        self._checkpoint = files.checkpoint
        self._same_run = last_run.same_system
        self._listed_end = last_run.listed_end
        self._progress = progress
        self._deleted = files.deleted_topics
        self._another = last_run.of_another
        self._topics = topics
        self._tail = LogTail(
            files.layer,
            files.paths,
            files.log.files,
            files.checkpoint,
            settings.max_tail_copy_bytes,
            self._proven_durable_end,
        )
        self._units = UnitWriter(files.queues)
        self.report = RecoveryReport(clean=last_run.clean)

    def run(self) -> RecoveryReport:
        """Recover; afterwards the log appends at its end, and the queues agree with the log.

        :raises LogDamaged: the log was not changed.
        :raises LogCutShort: nothing was changed.
        :raises LogBeginsLate: nothing was changed.
        :raises ForeignFile: the whole commit log is missing.
        """
        report, commit_log, queues = self.report, self._log, self._queues
        self._refuse_missing_log()
        self._refuse_late_begin()
        start = report.start_offset = self._start()
        # The log is checked before anything is changed.
        walk = self._walk(start, None, None, unsynced_from=self._unsynced_from())
        end = report.end_offset = walk.end
        report.records = walk.collector.records
        report.last_stored_at_ms = max(report.last_stored_at_ms, walk.collector.last_stored_at_ms)
        self._tail.settle(walk.end, walk.problem, report)
        if self._another and commit_log.files.list:
            self._hide_earlier_lives(walk)
        if not report.clean or queues.covered_end() > start:
            marks = self._checkpoint.marks
            if marks is not None and start < marks.queues:
                self._checkpoint.distrust_queues(start)
            queues.cut(start)
        self._forget_deleted()
        if start <= commit_log.min_offset:
            self._clear(set(queues.lost), walk)  # this walk rebuilds the lost queues with all others
            self._apply(walk, None)
        else:
            self._apply(walk, None)
            self._rebuild(queues.lost.keys() | self._units.lost, end)
        report.units = self._units.written
        report.remarks += self._units.remarks
        commit_log.move_to(end)
        commit_log.visible_end = end
        commit_log.checked_from = start
        self._deleted.trim(commit_log.min_offset, end)
        queues.correct_min(commit_log.min_offset)
        self._checkpoint.begin_log(commit_log.min_offset)
        return report

    def _hide_earlier_lives(self, walk: LogWalk) -> None:
        """Leave out messages of queues that another broker deleted, and note these deletions durably.

        Afterwards the files of queues no longer show such deletions, and the directory counts as the gateway's.
        """
        known = EarlierLives.of_another_broker(self._files, self._paths, self._queues.covered_end(), self._topics())
        found = list(walk.collector.queues())
        ended = ended_lives(found)
        deleted: list[str] = []
        for units in found:
            queue = self._queues.find((units.topic, units.queue_id))
            if queue is not None and (queue.max_offset or queue.is_damaged):
                continue
            hidden = 0
            for number, (_, run) in enumerate(units.runs, 1):
                if known.hides(units.topic, UNIT.unpack_from(run)[0], ended.get(units.topic, NOTHING)):
                    self._deleted.note_queue(
                        units.topic, units.queue_id, UNIT.unpack_from(run, len(run) - UNIT_BYTES)[0] + 1
                    )
                    hidden = number
            if hidden:
                del units.runs[:hidden]
                deleted.append(f"{units.topic}/{units.queue_id}")
        if deleted:
            more = f" and {len(deleted) - MAX_NAMED} more" if len(deleted) > MAX_NAMED else ""
            self.report.remarks.append(
                f"another broker deleted the queues {', '.join(deleted[:MAX_NAMED])}{more}: their messages stay hidden"
            )
        self._deleted.save()
        self._queues.journal.begin()
        self._checkpoint.forget_stale()

    def _forget_deleted(self) -> None:
        """Finish deletions of topics that were noted durably, but whose queues a power failure brought back."""
        # Another broker may have cut the log and stored other messages at the same offsets.
        deleted = {} if self._checkpoint.is_foreign else self._deleted.offsets
        for queue in self._queues:
            if queue.topic in deleted and 0 <= queue.covered_end() <= deleted[queue.topic]:
                self._queues.forget((queue.topic, queue.queue_id))

    def _proven_durable_end(self) -> int:
        """Return the offset up to which the log was on disk when the list of queues and the index files were written.

        Return −1 if the offset is unknown: another broker writes its index files at any time.
        """
        found = self._listed_end
        if self._checkpoint.marks is not None:
            ends = newest_end_offsets(self._files, self._paths)
            found = max([found, *(end for end in ends if end < self._log.files.end_offset)])
        return found

    def _unsynced_from(self) -> int | None:
        """Return the offset from which on sectors of the log may be missing, because of a power failure or a kill.

        A power failure keeps sectors from the disk, and a kill cuts a write short. Return None if neither happened, or
        if nobody knows what was durable.
        """
        marks = self._checkpoint.marks
        if marks is None or self.report.clean:
            return None
        durable = max(marks.durable, self._proven_durable_end())
        # A kill can only cut short the last write.
        return self._tail.data_end(durable) if self._same_run else durable

    # --- where to start ------------------------------------------------------------------------------------------

    def _refuse_missing_log(self) -> None:
        marks = self._checkpoint.marks
        if not self._log.files.list and marks is not None and marks.durable > 0:
            raise ForeignFile(
                self._paths.commit_log,
                f"holds no commit log file, but {marks.durable} bytes were stored",
                f"restore the files, or say where they are (storePathCommitLog); to start empty, remove "
                f"{self._paths.root} as a whole",
            )

    def _refuse_late_begin(self) -> None:
        """Refuse a log whose first files are missing.

        A deletion moves the log's start in the checkpoint before it removes a file.
        """
        expected, begin = self._checkpoint.log_begin, self._log.min_offset
        if self._log.files.list and begin > expected >= 0:
            path = self._paths.commit_log / offset_name(begin - self._log.files.file_size)
            raise LogBeginsLate(path, begin, expected, self._paths.root)

    def _start(self) -> int:
        log_files = self._log.files
        low = log_files.min_offset
        if not log_files.list:
            return low
        covered = self._covered_end()
        if covered == -1:
            return low
        marks = self._checkpoint.marks
        candidates = []
        if covered is not None:
            candidates.append(covered)
        # After a proper stop, the queues end at a record. If they do not, zeros at the marks are lost records.
        if marks is not None and not self.report.clean and self._is_boundary(marks.queues):
            candidates.append(marks.queues)
        elif not self.report.clean or covered is None:
            candidates.append(self._start_by_time())
        return max(min(candidates), low)

    def _covered_end(self) -> int | None:
        """Return the end of the last message of any queue; −1 if no queue has one, None if it is not in the log."""
        covered = self._queues.covered_end()
        if covered == -1 or covered < self._log.min_offset:
            return -1
        return covered if self._is_boundary(covered) and self._last_units_hold(covered) else None

    def _last_units_hold(self, covered: int) -> bool:
        for queue in self._queues:
            if queue.max_offset == 0 or queue.covered_end() != covered:
                continue
            unit = queue.unit(queue.max_offset - 1)
            if unit is None or not is_record_at(self._log.files, unit[0]):
                return False
            scan = LogScan(self._log.files, unit[0])
            last = next(iter(scan), None)
            if last is not None and scan.end != covered:  # the unit has a wrong size: a gap in the log
                return False
            self.report.last_stored_at_ms = 0 if last is None else last.stored_at_ms
            return True
        return False

    def _is_boundary(self, offset: int) -> bool:
        """Return whether a record may start here: a record does, or nothing is written here yet."""
        log_files = self._log.files
        if offset == log_files.end_offset:
            return True
        file = log_files.find(offset)
        if file is None:
            return False
        return is_record_at(log_files, offset) or not file.read(offset - file.start_offset, 8).strip(b"\x00")

    def _start_by_time(self) -> int:
        """Return the start of the last file whose first message is not newer than the checkpoint, as upstream does."""
        limit_ms = self._checkpoint.times.recovery_time_ms()
        for file in reversed(self._log.files.list):
            if is_record_at(self._log.files, file.start_offset):
                first = next(iter(LogScan(self._log.files, file.start_offset)), None)
                if first is not None and 0 < first.stored_at_ms <= limit_ms:
                    return file.start_offset
        return self._log.min_offset

    # --- the walk ------------------------------------------------------------------------------------------------

    def _walk(
        self,
        start: int,
        limit: int | None,
        only: Container[QueueName] | None,
        *,
        judging: bool = True,
        unsynced_from: int | None = None,
    ) -> LogWalk:
        """Walk once and gather units; a walk with ``judging`` goes on to the end even if there are too many units."""
        collector = UnitCollector(
            unit_code=self._dispatch.unit_code,
            special_topics=(SCHEDULE_TOPIC,),
            only=only,
            not_below=self._deleted.not_below,
            check_crc=judging and only is None,
            light_queues=self._dispatch.light_queues,
            unsynced_from=unsynced_from,
        )
        walk = LogWalk(self._log.files, start, limit, collector, max_units=MAX_COLLECTED_UNITS)
        walk.run(WalkProgress(walk, self._progress), stop_when_full=not judging)
        return walk

    def _apply(self, walk: LogWalk, only: Container[QueueName] | None) -> None:
        """Write the units of a walk; walk again over the part whose units did not fit, and write these units, too."""
        from_begin = walk.start <= self._log.min_offset
        end = walk.end
        self._units.write(walk.collector.queues(), from_begin=from_begin)
        while walk.collected_end < end:
            walk = self._walk(walk.collected_end, end, only, judging=False)
            self._units.write(walk.collector.queues(), from_begin=from_begin)

    def _rebuild(self, lost: set[QueueName], end: int) -> None:
        if not lost:
            return
        log.info("rebuilding consume queues from the whole commit log", queues=len(lost))
        walk = self._walk(self._log.min_offset, end, lost)
        if walk.end < end:
            self._tail.refuse(walk.end, walk.problem)
        self._clear(lost, walk)
        self._apply(walk, lost)

    def _clear(self, lost: set[QueueName], walk: LogWalk) -> None:
        """Empty the lost queues of which the walk found messages; of other lost queues keep the end."""
        if not lost:
            return
        # The erased units were durable, so after a crash in between the next start must not rely on the queues.
        self._checkpoint.distrust_queues(self._log.min_offset)
        found = {(queue.topic, queue.queue_id) for queue in walk.collector.queues()}
        for name in lost:
            if name in found:
                self._queues.make(*name).clear()
            elif name[0] in self._deleted.offsets:  # deleted on purpose, interrupted by a crash
                self._queues.forget(name)
            else:
                self._units.keep_end(name, self._queues.lost.get(name, 0), self._log.min_offset)
        self.report.rebuilt_queues = len(lost)
        self.report.remarks.append(f"{len(lost)} consume queues had lost files and were rebuilt from the commit log")


class WalkProgress:
    """The report of a walk's progress now and then. A plain class for speed: the walk calls it for every megabyte."""

    __slots__ = ("_log_at", "_progress", "_tell_at", "_walk")

    def __init__(self, walk: LogWalk, progress: Progress | None) -> None:
        self._walk = walk
        self._progress = progress
        self._tell_at = walk.start + PROGRESS_BYTES
        self._log_at = walk.start + PROGRESS_LINE_BYTES

    def __call__(self, end: int) -> None:
        """Note that the walk has reached ``end``."""
        if end < self._tell_at:
            return
        walk = self._walk
        done, total = end - walk.start, walk.limit - walk.start
        self._tell_at = end + PROGRESS_BYTES
        if self._progress is not None:
            self._progress(done, total)
        if end >= self._log_at:
            self._log_at = end + PROGRESS_LINE_BYTES
            log.info(
                "recovering the commit log",
                done_mib=done // _MIB,
                of_at_most_mib=total // _MIB,
                percent=100 * done // total,
                records=walk.collector.records,
            )
