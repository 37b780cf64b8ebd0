"""What stands in the log behind the last intact record: nothing, a torn write, or intact records behind damage.

A torn write is cut off and kept beside the log. Damage that had been durable and is followed by intact records is never
cut: a person decides. So it is when a store that was closed properly has lost the end of its log: no crash does that,
while a disk that only claims to have synced may do it to a store that was not closed.
"""

from __future__ import annotations

from pathlib import Path

from gateway.store.checkpoint import CheckpointFile
from gateway.store.errors import LogCutShort, LogDamaged
from gateway.store.files import FileLayer
from gateway.store.log_scan import LogScan, next_record
from gateway.store.mapped_file_queue import MappedFileQueue
from gateway.store.paths import StorePaths
from gateway.store.recovery_report import RecoveryReport

_COPY_BYTES = 1024 * 1024
MAX_COPIES = 100
"""Of tails that began at one offset; the last is then replaced."""
_NOTHING = "nothing is written here"


class LogTail:
    """The end of one log.

    :param max_copy_bytes: of what is cut off, kept in ``recovered/``.
    """

    def __init__(
        self,
        files: FileLayer,
        paths: StorePaths,
        log_files: MappedFileQueue,
        checkpoint: CheckpointFile,
        max_copy_bytes: int,
    ) -> None:
        self._files = files
        self._paths = paths
        self._log_files = log_files
        self._checkpoint = checkpoint
        self._max_copy_bytes = max_copy_bytes

    def settle(self, end: int, problem: str | None, report: RecoveryReport) -> None:
        """Cut what lies behind ``end``, where the intact records end; ``report`` is told.

        :raises LogDamaged: it must not be cut; nothing was changed.
        :raises LogCutShort: the end is gone since the store was closed properly; nothing was changed.
        """
        data_end = self._data_end(end)
        marks = self._checkpoint.marks
        follower = next_record(self._log_files, end) if data_end > end else None
        if follower is not None and self._was_durable(end, follower):
            self._refuse(end, problem, f"intact records follow from offset {follower} on")
        if report.clean and marks is not None and marks.durable > end:
            file = self._log_files.find(end) or self._log_files.list[-1]
            raise LogCutShort(file.path, end, marks.durable, self._paths.root)
        if data_end > end:
            self._cut(end, data_end, problem or _NOTHING, report)
        if marks is not None and marks.durable > end:
            report.durable_bytes_lost = marks.durable - end
            report.remarks.append(
                f"the commit log ends at {end}, but {marks.durable} bytes had been on disk: "
                f"{report.durable_bytes_lost} bytes of acknowledged messages are lost"
            )
            self._checkpoint.forget()

    def refuse(self, damaged: int, problem: str | None) -> None:
        """Damage before the end of the log, found while queues are rebuilt.

        :raises LogDamaged: always.
        """
        follower = next_record(self._log_files, damaged)
        follows = "" if follower is None else f"intact records follow from offset {follower} on, and "
        self._refuse(damaged, problem, f"{follows}lost consume queues have to be rebuilt from all of the log")

    def _refuse(self, damaged: int, problem: str | None, follows: str) -> None:
        file = self._log_files.find(damaged)
        assert file is not None, "there is data at or behind the end"
        position = damaged - file.start_offset
        raise LogDamaged(file.path, position, damaged, problem or _NOTHING, follows, self._paths.root)

    def _data_end(self, end: int) -> int:
        """The offset after the last byte that is not zero, at least ``end``."""
        for file in reversed(self._log_files.list):
            if file.start_offset + file.size <= end:
                break
            start = max(end - file.start_offset, 0)
            found = file.data_end(start)
            if found > start:
                return file.start_offset + found
        return end

    def _was_durable(self, damaged: int, follower: int) -> bool:
        """A damaged record is a torn write only if it was not yet durable, or nothing intact follows it."""
        marks = self._checkpoint.marks
        if marks is not None:
            return damaged < marks.durable
        flushed_ms = self._checkpoint.times.log_stored_at_ms
        message = next(iter(LogScan(self._log_files, follower)), None)
        return flushed_ms == 0 or (message is not None and message.stored_at_ms <= flushed_ms)

    def _cut(self, end: int, data_end: int, problem: str, report: RecoveryReport) -> None:
        report.torn_bytes = data_end - end
        report.torn_copy = self._keep_copy(end, data_end)
        kept = min(report.torn_bytes, self._max_copy_bytes)
        report.remarks.append(
            f"{report.torn_bytes} bytes at the end of the commit log were cut at offset {end} ({problem}); "
            f"the first {kept} of them are kept in {report.torn_copy}"
        )
        self._log_files.remove_after(max(end - 1, self._log_files.min_offset))
        file = self._log_files.find(end)
        if file is not None:
            file.erase(end - file.start_offset)

    def _keep_copy(self, end: int, data_end: int) -> Path:
        self._files.make_directory(self._paths.recovered)
        names = (self._paths.tail(end, number) for number in range(1, MAX_COPIES))
        path = next((name for name in names if not self._files.exists(name)), self._paths.tail(end, MAX_COPIES))
        fd = self._files.open(path, create=True)
        try:
            self._files.truncate(fd, 0)
            position = end
            stop = min(data_end, end + self._max_copy_bytes)
            while position < stop and (file := self._log_files.find(position)) is not None:
                at = position - file.start_offset
                data = file.read(at, min(_COPY_BYTES, stop - position, file.size - at))
                self._files.pwrite(fd, data, position - end)
                position += len(data)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
        self._files.fsync_directory(self._paths.recovered)
        return path
