"""Opening a store that was closed, killed or damaged: find the end of the log, make the derived files agree with it.

    1  choose where to start: after the last message of the consume queues (clean), at the checkpoint (unclean)
    2  forget consume queue units from there on
    3  walk the log from there, checking every record, and write the units anew
    4  where the records end: nothing behind → done; a torn tail → copy it aside and erase it; intact records behind
       a damaged one that was durable → refuse to start, change nothing
    5  rebuild queues that lost files by walking the whole log

Upstream: ``CommitLog.recoverNormally`` and ``recoverAbnormally``, which cut the log at the first bad record, whatever
follows, and keep no copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gateway.store.checkpoint import CheckpointFile
from gateway.store.commit_log import CommitLog
from gateway.store.consume_queue import ConsumeQueue
from gateway.store.consume_queues import ConsumeQueues
from gateway.store.dispatch import HIDDEN, Dispatch
from gateway.store.errors import ForeignFile, LogDamaged
from gateway.store.files import FileLayer
from gateway.store.log_scan import LogScan, is_record_at, next_record
from gateway.store.paths import StorePaths
from gateway.store.queue_ends import lost_queues
from wire.disk.consume_queue import UNIT
from wire.message.record import StoredMessage

PROGRESS_BYTES = 64 * 1024 * 1024
"""Progress is told this often."""
_UNITS_PER_WRITE = 50_000
_COPY_BYTES = 1024 * 1024

Progress = Callable[[int, int], None]
"""Told (bytes done, bytes in all) of a long walk."""
QueueName = tuple[str, int]


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did.

    ``clean``: the store was closed properly. ``start_offset`` … ``end_offset``: the part of the log that was walked.
    ``last_stored_at_ms``: when the newest message of that part was stored, or the last one before it; 0 when unknown.
    ``torn_bytes`` at the end were cut; a copy is at ``torn_copy``. ``durable_bytes_lost`` of these, or beyond them,
    had been reported as on disk.
    """

    clean: bool
    start_offset: int = 0
    end_offset: int = 0
    last_stored_at_ms: int = 0
    records: int = 0
    units: int = 0
    torn_bytes: int = 0
    torn_copy: Path | None = None
    durable_bytes_lost: int = 0
    rebuilt_queues: int = 0
    remarks: list[str] = field(default_factory=list)


class Recovery:
    """One recovery; everything it needs, and ``run``."""

    def __init__(
        self,
        files: FileLayer,
        paths: StorePaths,
        *,
        log: CommitLog,
        queues: ConsumeQueues,
        dispatch: Dispatch,
        checkpoint: CheckpointFile,
        clean: bool,
        max_copy_bytes: int,
        progress: Progress | None,
    ) -> None:
        self._files = files
        self._paths = paths
        self._log = log
        self._queues = queues
        self._checkpoint = checkpoint
        self._max_copy_bytes = max_copy_bytes
        self._progress = progress
        self._units = UnitWriter(queues, dispatch)
        self.report = RecoveryReport(clean=clean)

    def run(self) -> RecoveryReport:
        """Recover; afterwards the log stands at its end and the queues agree with it.

        :raises LogDamaged: nothing was changed.
        :raises ForeignFile: the commit log is gone as a whole.
        """
        report, log = self.report, self._log
        lost = set(self._queues.lost)
        if not self._checkpoint.is_foreign:  # another broker may have deleted topics
            lost |= lost_queues(self._files, self._paths, self._queues)
        self._refuse_missing_log()
        start = report.start_offset = self._start()
        scan = LogScan(log.files, start)
        # The log is judged before anything is changed, so it is walked before the queues are cut.
        self._check(scan)
        report.end_offset = scan.end
        self._settle_tail(scan)
        if not report.clean or self._queues.covered_end() > start:
            self._queues.cut(start)
        self._rebuild_units(start, scan.end, None)
        lost |= self._units.lost
        if lost:
            self._rebuild_lost(lost, scan.end)
        report.units = self._units.written
        log.move_to(scan.end)
        log.visible_end = scan.end
        self._queues.correct_min(log.min_offset)
        return report

    # --- where to start ------------------------------------------------------------------------------------------

    def _refuse_missing_log(self) -> None:
        marks = self._checkpoint.marks
        if not self._log.files.list and marks is not None and marks.durable > 0:
            raise ForeignFile(
                self._paths.commit_log,
                f"holds no commit log file, but {marks.durable} bytes were stored",
                f"restore the files, or remove {self._paths.root} as a whole to start empty",
            )

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
        if marks is not None and (not self.report.clean or covered is None) and self._is_boundary(marks.queues):
            candidates.append(marks.queues)
        elif not self.report.clean or covered is None:
            candidates.append(self._start_by_time())
        return max(min(candidates), low)

    def _covered_end(self) -> int | None:
        """The end of the last message of any queue; −1 when no queue has one, None when it is not in the log."""
        covered = self._queues.covered_end()
        if covered == -1 or covered < self._log.min_offset:
            return -1
        return covered if self._is_boundary(covered) and self._last_units_hold(covered) else None

    def _last_units_hold(self, covered: int) -> bool:
        for queue in self._queues:
            unit = queue.unit(queue.max_offset - 1) if queue.max_offset else None
            if unit is not None and unit[0] + unit[1] == covered:
                if not is_record_at(self._log.files, unit[0]):
                    return False
                last = next(iter(LogScan(self._log.files, unit[0])), None)
                self.report.last_stored_at_ms = 0 if last is None else last.stored_at_ms
                return True
        return False

    def _is_boundary(self, offset: int) -> bool:
        """Whether a record may start here: one does, or nothing is written here yet."""
        log_files = self._log.files
        if offset == log_files.end_offset:
            return True
        file = log_files.find(offset)
        if file is None:
            return False
        return is_record_at(log_files, offset) or not file.read(offset - file.start_offset, 8).strip(b"\x00")

    def _start_by_time(self) -> int:
        """The begin of the last file whose first message is older than the checkpoint, as upstream."""
        limit_ms = self._checkpoint.times.recovery_time_ms()
        for file in reversed(self._log.files.list):
            if is_record_at(self._log.files, file.start_offset):
                first = next(iter(LogScan(self._log.files, file.start_offset)), None)
                if first is not None and 0 < first.stored_at_ms <= limit_ms:
                    return file.start_offset
        return self._log.min_offset

    # --- the walk ------------------------------------------------------------------------------------------------

    def _check(self, scan: LogScan) -> None:
        told = scan.end
        for message in scan:
            self.report.records += 1
            if message.stored_at_ms > self.report.last_stored_at_ms:
                self.report.last_stored_at_ms = message.stored_at_ms
            if self._progress is not None and scan.end - told >= PROGRESS_BYTES:
                told = scan.end
                self._progress(told - self.report.start_offset, scan.limit - self.report.start_offset)

    def _rebuild_units(self, start: int, end: int, only: set[QueueName] | None) -> None:
        whole = start == self._log.min_offset
        for message in LogScan(self._log.files, start, end, check_crc=False):
            if not message.sys_flag & HIDDEN and (only is None or (message.topic, message.queue_id) in only):
                self._units.add(message, may_begin=whole)
        self._units.flush()

    def _rebuild_lost(self, lost: set[QueueName], end: int) -> None:
        for name in lost:
            self._queues.make(*name).clear()
        self.report.rebuilt_queues = len(lost)
        self.report.remarks.append(f"{len(lost)} consume queues had lost files and were rebuilt from the commit log")
        self._rebuild_units(self._log.min_offset, end, lost)

    # --- the tail ------------------------------------------------------------------------------------------------

    def _settle_tail(self, scan: LogScan) -> None:
        data_end = self._data_end(scan.end)
        marks = self._checkpoint.marks
        if data_end > scan.end:
            self._refuse_damage(scan)
            self._cut_tail(scan.end, data_end, scan.problem or "nothing is written here")
        if marks is not None and marks.durable > scan.end:
            self.report.durable_bytes_lost = marks.durable - scan.end
            self.report.remarks.append(
                f"the commit log ends at {scan.end}, but {marks.durable} bytes had been on disk: "
                f"{self.report.durable_bytes_lost} bytes of acknowledged messages are lost"
            )
            self._checkpoint.forget()

    def _data_end(self, end: int) -> int:
        """The offset after the last byte that is not zero, at least ``end``."""
        for file in reversed(self._log.files.list):
            if file.start_offset + file.size <= end:
                break
            start = max(end - file.start_offset, 0)
            found = file.data_end(start)
            if found > start:
                return file.start_offset + found
        return end

    def _refuse_damage(self, scan: LogScan) -> None:
        """A damaged record is a torn write only if it was not yet durable, or nothing intact follows it."""
        follower = next_record(self._log.files, scan.end)
        if follower is None or not self._was_durable(scan.end, follower):
            return
        file = self._log.files.find(scan.end)
        assert file is not None, "there is data at or behind the end"
        raise LogDamaged(
            file.path,
            scan.end - file.start_offset,
            scan.end,
            scan.problem or "nothing is written here",
            f"intact records follow from offset {follower} on",
        )

    def _was_durable(self, damaged: int, follower: int) -> bool:
        marks = self._checkpoint.marks
        if marks is not None:
            return damaged < marks.durable
        flushed_ms = self._checkpoint.times.log_stored_at_ms
        message = next(iter(LogScan(self._log.files, follower)), None)
        return flushed_ms == 0 or (message is not None and message.stored_at_ms <= flushed_ms)

    def _cut_tail(self, end: int, data_end: int, problem: str) -> None:
        report = self.report
        report.torn_bytes = data_end - end
        report.torn_copy = self._keep_copy(end, data_end)
        kept = min(report.torn_bytes, self._max_copy_bytes)
        report.remarks.append(
            f"{report.torn_bytes} bytes at the end of the commit log were cut at offset {end} ({problem}); "
            f"the first {kept} of them are kept in {report.torn_copy}"
        )
        self._log.files.remove_after(max(end - 1, self._log.min_offset))
        file = self._log.files.find(end)
        if file is not None:
            file.erase(end - file.start_offset)

    def _keep_copy(self, end: int, data_end: int) -> Path:
        self._files.make_directory(self._paths.recovered)
        path = self._paths.tail(end)
        fd = self._files.open(path, create=True)
        try:
            self._files.truncate(fd, 0)
            position = end
            stop = min(data_end, end + self._max_copy_bytes)
            while position < stop and (file := self._log.files.find(position)) is not None:
                at = position - file.start_offset
                data = file.read(at, min(_COPY_BYTES, stop - position, file.size - at))
                self._files.pwrite(fd, data, position - end)
                position += len(data)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
        self._files.fsync_directory(self._paths.recovered)
        return path


class UnitWriter:
    """Writes the units of messages found in the log; notices queues that miss some."""

    def __init__(self, queues: ConsumeQueues, dispatch: Dispatch) -> None:
        self._queues = queues
        self._dispatch = dispatch
        self._waiting: dict[ConsumeQueue, bytearray] = {}
        self._first: dict[ConsumeQueue, int] = {}
        self._count = 0
        self.lost: set[QueueName] = set()
        self.written = 0

    def add(self, message: StoredMessage, *, may_begin: bool) -> None:
        """Add one message; in log order.

        :param may_begin: whether a queue without units may begin at any offset, because the walk began with the log.
        """
        queue = self._queues.make(message.topic, message.queue_id)
        waiting = self._waiting.get(queue)
        expected = queue.max_offset if waiting is None else self._first[queue] + len(waiting) // UNIT.size
        if message.queue_offset != expected:
            if message.queue_offset > expected and (expected > 0 or not may_begin):
                self.lost.add((message.topic, message.queue_id))
                return
            if message.queue_offset < expected:
                # The topic was deleted and made again: the later messages are the queue.
                self.flush()
                queue.clear()
            waiting = None
        if waiting is None:
            waiting = self._waiting[queue] = bytearray()
            self._first[queue] = message.queue_offset
        code = self._dispatch.unit_code(message.topic, message.property_map, message.stored_at_ms)
        waiting += UNIT.pack(message.commit_log_offset, message.total_size, code)
        self._count += 1
        if self._count >= _UNITS_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        for queue, units in self._waiting.items():
            self._queues.write(queue, self._first[queue], bytes(units))
        self.written += self._count
        self._count = 0
        self._waiting.clear()
        self._first.clear()
