"""The bytes of the log after the last intact record: nothing, a torn write, or intact records after damage.

Only bytes that a crash can leave are cut: bytes that were not yet durable. A power failure keeps any of these bytes and
loses others, so intact records may lie after a hole; such records are copied in full before they are cut. Each of the
following proves that the bytes were durable, or that no crash left them; then a person decides:

    the store was closed properly       nothing is after the end then, and nothing of it is gone
    durable mark of the checkpoint      it lies beyond the damage
    list of the queues, index files     they are written when the log is durable up to where they reach
    store times                         the records after the damage span more than a flush ever waits

A disk that only claims to have synced may lose the durable end of a store that was not closed. Such a loss is reported,
and does not stop the start.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.disk.paths import StorePaths
from gateway.store.durability.checkpoint import CheckpointFile
from gateway.store.errors import LogCutShort, LogDamaged
from gateway.store.log.log_scan import LogScan, next_record
from gateway.store.recovery.recovery_report import RecoveryReport

_COPY_BYTES = 1024 * 1024
MAX_COPIES = 100
"""The most copies of tails that started at one offset; the last copy is then replaced."""
MAX_UNFLUSHED_MS = 10 * 60_000
"""The longest time between the first and the last record that were not yet durable, in milliseconds.

A flush waits 10 s at most, and a disk that hangs may take minutes; records that span more time were not written between
two flushes.
"""
MAX_STEP_MS = 10_000
"""The most milliseconds that count between two records.

A machine that sleeps, or a clock that is set, is no time of writing.
"""
_NOTHING = "nothing is written here"
_ZEROS = bytes(_COPY_BYTES)


class LogTail:
    """The end of one log.

    :param max_copy_bytes: the most bytes of a cut part without an intact record that are kept in ``recovered/``.
    :param durable_end: returns the offset up to which derived files prove that the log was durable; −1 if unknown.
    """

    def __init__(
        self,
        files: FileLayer,
        paths: StorePaths,
        log_files: MappedFileQueue,
        checkpoint: CheckpointFile,
        max_copy_bytes: int,
        durable_end: Callable[[], int] = lambda: -1,
    ) -> None:
        self._files = files
        self._paths = paths
        self._log_files = log_files
        self._checkpoint = checkpoint
        self._max_copy_bytes = max_copy_bytes
        self._durable_end = durable_end

    def settle(self, end: int, problem: str | None, report: RecoveryReport) -> None:
        """Cut the bytes after ``end``, where the intact records end, and note the result in ``report``.

        :raises LogDamaged: the bytes must not be cut; nothing was changed.
        :raises LogCutShort: the end of the log has gone since the store was closed properly; nothing was changed.
        """
        data_end = self.data_end(end)
        marks = self._checkpoint.marks
        follower = next_record(self._log_files, end) if data_end > end else None
        if report.clean and marks is not None and marks.durable <= end < data_end:
            self._refuse_replaced(end, data_end, problem)
        if follower is not None and (why := self._why_durable(end, follower)):
            self._refuse(end, problem, f"intact records follow from offset {follower} on, {why}")
        if report.clean and marks is not None and marks.durable > end:
            file = self._log_files.find(end) or self._log_files.list[-1]
            raise LogCutShort(file.path, end, marks.durable, self._paths.root)
        if report.clean and self._reaches_next_file(end, data_end):
            self._refuse_replaced(end, data_end, problem)
        if data_end > end:
            self._cut(end, data_end, problem or _NOTHING, report, holds_records=follower is not None)
        if marks is not None and marks.durable > end:
            report.durable_bytes_lost = marks.durable - end
            report.remarks.append(
                f"the commit log ends at {end}, but {marks.durable} bytes had been on disk: "
                f"{report.durable_bytes_lost} bytes of acknowledged messages are lost"
            )
            self._checkpoint.forget()

    def refuse(self, damaged: int, problem: str | None) -> None:
        """Report damage before the end of the log that was found while queues are rebuilt.

        :raises LogDamaged: always.
        """
        follower = next_record(self._log_files, damaged)
        follows = "" if follower is None else f"intact records follow from offset {follower} on, and "
        self._refuse(damaged, problem, f"{follows}lost consume queues have to be rebuilt from all of the log")

    def _refuse_replaced(self, end: int, data_end: int, problem: str | None) -> None:
        what = "although the store was closed properly: since then a file was replaced, by an older copy or another one"
        self._refuse(end, problem, f"{data_end - end} bytes are written behind it {what}")

    def _refuse(self, damaged: int, problem: str | None, follows: str) -> None:
        file = self._log_files.find(damaged)
        assert file is not None, "there is data at or behind the end"
        position = damaged - file.start_offset
        raise LogDamaged(file.path, position, damaged, problem or _NOTHING, follows, self._paths.root)

    def data_end(self, end: int) -> int:
        """Return the offset after the last byte that is not zero, but at least ``end``."""
        return data_end_of(self._log_files, end)

    def _reaches_next_file(self, end: int, data_end: int) -> bool:
        """Return whether the bytes after the end reach beyond its file.

        Old bytes in the rest of one file are no such sign, because another broker leaves them there.
        """
        file = self._log_files.find(max(end - 1, self._log_files.min_offset))
        return file is not None and data_end > file.start_offset + file.size

    def _why_durable(self, damaged: int, follower: int) -> str | None:
        """Return the proof that a damaged record was durable, or that no crash left it; None without a proof.

        :param follower: the offset of the first intact record after the damage.
        """
        marks, times = self._checkpoint.marks, self._checkpoint.times
        if marks is not None and damaged < marks.durable:
            return "and all of it was on disk"
        if (durable := self._durable_end()) > damaged:
            return f"and queues or index were written when the log was on disk up to {durable}"
        first = next(iter(LogScan(self._log_files, follower)), None)
        if marks is None and (
            times.log_stored_at_ms == 0 or (first is not None and first.stored_at_ms <= times.log_stored_at_ms)
        ):
            return "and may have been on disk"
        if (span_ms := self._span_ms(follower)) > MAX_UNFLUSHED_MS:
            return f"stored over {span_ms // 1000} s or more: no crash leaves so much that was not on disk"
        return None

    def _span_ms(self, follower: int) -> int:
        """Return for how many milliseconds the records after the damage were being stored, as far as that matters."""
        span_ms, last_ms = 0, -1
        offset: int | None = follower
        while offset is not None:
            scan = LogScan(self._log_files, offset, check_crc=False)
            for message in scan:
                if last_ms >= 0:
                    span_ms += min(max(message.stored_at_ms - last_ms, 0), MAX_STEP_MS)
                last_ms = message.stored_at_ms
                if span_ms > MAX_UNFLUSHED_MS:
                    return span_ms
            offset = next_record(self._log_files, scan.end)
        return span_ms

    def _cut(self, end: int, data_end: int, problem: str, report: RecoveryReport, *, holds_records: bool) -> None:
        report.torn_bytes = data_end - end
        kept = report.torn_bytes if holds_records else min(report.torn_bytes, self._max_copy_bytes)
        report.torn_copy = self._keep_copy(end, end + kept)
        how_much = "all" if kept == report.torn_bytes else f"the first {kept}"
        report.remarks.append(
            f"{report.torn_bytes} bytes at the end of the commit log were cut at offset {end} ({problem}); "
            f"{how_much} of them are kept in {report.torn_copy}"
            + ("; there are intact records in it, which had never been durable" if holds_records else "")
        )
        self._log_files.remove_after(max(end - 1, self._log_files.min_offset))
        file = self._log_files.find(end)
        if file is not None:
            file.erase(end - file.start_offset)

    def _keep_copy(self, end: int, stop: int) -> Path:
        self._files.make_directory(self._paths.recovered)
        names = (self._paths.tail(end, number) for number in range(1, MAX_COPIES))
        path = next((name for name in names if not self._files.exists(name)), self._paths.tail(end, MAX_COPIES))
        return keep_copy(self._files, self._log_files, path, end, stop)


def data_end_of(log_files: MappedFileQueue, end: int) -> int:
    """Return the offset after the last byte of a log that is not zero, but at least ``end``."""
    for file in reversed(log_files.list):
        if file.start_offset + file.size <= end:
            break
        start = max(end - file.start_offset, 0)
        found = file.data_end(start)
        if found > start:
            return file.start_offset + found
    return end


def keep_copy(files: FileLayer, log_files: MappedFileQueue, path: Path, start: int, stop: int) -> Path:
    """Copy the bytes ``start`` … ``stop`` of a log to a file of an existing directory, durably; return its path."""
    fd = files.open(path, create=True)
    try:
        files.truncate(fd, 0)
        position = start
        while position < stop and (file := log_files.find(position)) is not None:
            at = position - file.start_offset
            data = file.read(at, min(_COPY_BYTES, stop - position, file.size - at))
            if data != _ZEROS[: len(data)]:  # holes stay holes
                files.pwrite(fd, data, position - start)
            position += len(data)
        files.truncate(fd, stop - start)
        files.fdatasync(fd)
    finally:
        files.close(fd)
    files.fsync_directory(path.parent)
    return path
