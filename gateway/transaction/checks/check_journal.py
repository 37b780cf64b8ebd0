"""A journal of how often each half message was checked, when its next check is due, and up to where the log is settled.

The journal is a small file of our own beside the commit log, so a check appends nothing to the log. Each check appends
one record of 32 bytes. The file is written again after it has grown to a multiple of what is still needed. The file is
not synced for each check: after a power failure a few checks may not be counted, and nothing else is lost.

    head     8 bytes, ``RMQGCHK1``
    record   half-queue offset int64 · commit log offset int64 · due time int64 (ms) · checks int32 · crc32

A record with the half-queue offset −1 is a mark: every final message below the mark's commit log offset has its op
record. The next start therefore searches for final messages without op records from the mark on. A torn or damaged end
of the file is cut off.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from gateway.in_thread import Failed, InThread
from gateway.store.disk.files import FileLayer
from gateway.store.disk.small_files import write_file
from gateway.telemetry.logs import EventLog

log = EventLog("transaction")

# On disk: never change.
HEAD = b"RMQGCHK1"
_FIELDS = struct.Struct(">qqqi")
_CRC = struct.Struct(">I")
_RECORD = struct.Struct(">qqqiI")
RECORD_BYTES = _RECORD.size
MARK = -1

REWRITE_BYTES = 1 << 20
"""The size above which the file is written again, if the file is also larger than four times what is needed."""
MAX_BYTES = 256 << 20
"""The largest part of a file that is read: eight million checks.

Records after that part are cut off, and the checks of their transactions are counted again.
"""

Check = tuple[int, int, int, int]
"""The half-queue offset, commit log offset, due time (ms) and number of checks of one half message."""


def build_check(check: Check) -> bytes:
    """Build one record."""
    fields = _FIELDS.pack(*check)
    return fields + _CRC.pack(zlib.crc32(fields))


class Checks(Mapping[int, Check]):
    """The newest check of each half-queue offset, unpacked on access, because a start may find a million checks.

    :param data: the bytes of a file.
    :param positions: the position of each record in ``data``, by half-queue offset.
    """

    __slots__ = ("_data", "_positions")

    def __init__(self, data: bytes, positions: dict[int, int]) -> None:
        self._data = data
        self._positions = positions

    def __getitem__(self, offset: int) -> Check:
        check: Check = _FIELDS.unpack_from(self._data, self._positions[offset])
        return check

    def __iter__(self) -> Iterator[int]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


def parse_checks(data: bytes) -> tuple[Checks, int]:
    """Return the newest checks of a file, the mark among them, and how many bytes of the file are good."""
    if not data.startswith(HEAD):
        return Checks(b"", {}), 0
    positions: dict[int, int] = {}
    at = len(HEAD)
    crc32, size = zlib.crc32, _FIELDS.size
    whole = (len(data) - at) // RECORD_BYTES * RECORD_BYTES
    for offset, _, _, _, crc in _RECORD.iter_unpack(memoryview(data)[at : at + whole]):
        if crc32(data[at : at + size]) != crc:
            break
        positions[offset] = at
        at += RECORD_BYTES
    return Checks(data, positions), at


class CheckJournal:
    """The open file. A lost file costs counts and never an outcome, so errors of the disk are only logged.

    :param in_thread: runs the rewriting of the file.
    """

    def __init__(self, path: Path, *, in_thread: InThread, files: FileLayer | None = None) -> None:
        self.path = path
        self._files: FileLayer = FileLayer() if files is None else files
        self._in_thread = in_thread
        self._fd = -1
        self._end = 0
        self._unwritten: list[bytes] = []
        self._since_snapshot: list[bytes] | None = None
        self.mark = 0

    def load(self) -> Mapping[int, Check]:
        """Open and read the file; return the newest check of each half-queue offset, with the mark at −1; blocks.

        :raises OSError: the file cannot be opened or made.
        """
        files = self._files
        files.make_directory(self.path.parent)
        self._fd = files.open(self.path, create=True)
        size = files.size(self._fd)
        checks, good = parse_checks(files.pread(self._fd, min(size, MAX_BYTES), 0) if size else b"")
        if good < size:
            log.warning("end of the check journal cut off", path=self.path, bytes=size - good)
            files.truncate(self._fd, good)
        if good == 0:
            files.pwrite(self._fd, HEAD, 0)
            files.fsync_directory(self.path.parent)
            good = len(HEAD)
        self._end = good
        mark = checks.get(MARK)
        self.mark = 0 if mark is None else mark[1]
        return checks

    def checked(self, offset: int, log_offset: int, due_at_ms: int, checks: int) -> None:
        """Note that a check was sent. The next ``write`` appends the record."""
        self._unwritten.append(build_check((offset, log_offset, due_at_ms, checks)))

    def settled_below(self, log_offset: int) -> None:
        """Note that every final message below this commit log offset has its op record."""
        if log_offset > self.mark:
            self.mark = log_offset
            self._unwritten.append(build_check((MARK, log_offset, 0, 0)))

    def forget_mark(self) -> None:
        """Note that final messages without op records may be anywhere; blocks.

        :raises OSError: the file cannot be written.
        """
        if self.mark:
            self.mark = 0
            self._files.pwrite(self._fd, build_check((MARK, 0, 0, 0)), self._end)
            self._files.fdatasync(self._fd)
            self._end += RECORD_BYTES

    def write(self, needed: int, snapshot: Callable[[], Iterable[Check]]) -> None:
        """Append the gathered records, and start to write the file again if the file has grown enough.

        :param needed: the number of half messages whose check count still matters.
        :param snapshot: returns the checks of these half messages. A thread iterates over the result.
        """
        if not self._unwritten or self._fd < 0:
            return
        data = b"".join(self._unwritten)
        if self._since_snapshot is not None:
            self._since_snapshot.append(data)
        self._unwritten = []
        try:
            self._files.pwrite(self._fd, data, self._end)
        except OSError as error:
            log.error("check journal not written", path=self.path, error=str(error))
            return
        self._end += len(data)
        if self._end > max(REWRITE_BYTES, 4 * RECORD_BYTES * needed) and self._since_snapshot is None:
            self._rewrite(snapshot())

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1

    def _rewrite(self, checks: Iterable[Check]) -> None:
        self._since_snapshot = []
        target = self.path.with_name(self.path.name + ".new")
        mark = build_check((MARK, self.mark, 0, 0))
        self._in_thread(partial(self._write_anew, target, HEAD + mark, checks), partial(self._rewritten, target))

    def _write_anew(self, target: Path, start: bytes, checks: Iterable[Check]) -> int:
        """Write a whole new file in a thread; return its length in bytes."""
        data = bytearray(start)
        for check in checks:
            data += build_check(check)
        write_file(self._files, target, data)
        return len(data)

    def _rewritten(self, target: Path, result: int | Failed) -> None:
        since, self._since_snapshot = self._since_snapshot or [], None
        if self._fd < 0:
            return
        if isinstance(result, Failed):
            log.error("check journal not rewritten", path=target, error=str(result.error))
            return
        fd = -1
        try:
            fd = self._files.open(target)
            data = b"".join(since)
            self._files.pwrite(fd, data, result)
            self._files.rename(target, self.path)
        except OSError as error:
            log.error("check journal not rewritten", path=target, error=str(error))
            if fd >= 0:
                self._files.close(fd)
            return
        self._files.close(self._fd)
        self._fd = fd
        self._end = result + len(data)
        self._in_thread(lambda: self._files.fsync_directory(self.path.parent), self._renamed)

    def _renamed(self, result: Failed | None) -> None:
        """Log a failed sync of the directory.

        Until the directory is on disk, a power failure may bring the former file back. Only a few counts would be lost.
        """
        if isinstance(result, Failed):
            log.error("rewritten check journal not synced", path=self.path, error=str(result.error))
