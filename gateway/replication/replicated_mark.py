"""The file that says how far the log is known to be replicated, so that a restart shows no more than that.

    gateway-replicated   offset int64 · crc32

It is written in place and not synced while the broker runs: after a power failure it may name an earlier offset, never
a later one than was replicated. A directory without the file was served by a broker that waits for no slave, and all of
its log is shown.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.telemetry.logs import EventLog

log = EventLog("replication")

FILE_NAME = "gateway-replicated"
"""The name of the file. Never change: it is on disk."""
_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
BYTES = _OFFSET.size + _CRC.size


def build_mark(offset: int) -> bytes:
    """Return the content of the file."""
    fields = _OFFSET.pack(offset)
    return fields + _CRC.pack(zlib.crc32(fields))


def parse_mark(data: bytes) -> int:
    """Return the offset that a file names; 0 if the file is damaged, so that nothing is known to be replicated."""
    fields, crc = data[: _OFFSET.size], data[_OFFSET.size : BYTES]
    if len(data) < BYTES or crc != _CRC.pack(zlib.crc32(fields)):
        return 0
    offset: int = _OFFSET.unpack(fields)[0]
    return max(offset, 0)


class ReplicatedMark:
    """The file of one store directory."""

    def __init__(self, root: Path, files: FileLayer | None = None) -> None:
        self._root = root
        self._files = FileLayer() if files is None else files
        self._path = root / FILE_NAME
        self._fd = -1
        self._is_failing = False

    def load(self) -> int | None:
        """Return the offset below which the log is known to be replicated; None without the file; blocks.

        :raises OSError: the file cannot be read.
        """
        if not self._files.exists(self._path):
            return None
        fd = self._files.open(self._path)
        try:
            return parse_mark(self._files.pread(fd, BYTES, 0))
        finally:
            self._files.close(fd)

    def begin(self, offset: int) -> None:
        """Open the file, and write an offset durably; blocks.

        :raises OSError: the file cannot be written.
        """
        self._fd = self._files.open(self._path, create=True)
        self._files.pwrite(self._fd, build_mark(offset), 0)
        self._files.fdatasync(self._fd)
        self._files.fsync_directory(self._root)

    def move(self, offset: int) -> None:
        """Note that the log is replicated up to an offset; the system writes it to the disk when it likes.

        On the reactor's thread: 2 µs, and of 60,000 calls none waited for a disk that wrote the log meanwhile.
        """
        try:
            self._files.pwrite(self._fd, build_mark(offset), 0)
        except OSError as error:
            if not self._is_failing:  # a restart hides more than it has to until slaves report
                log.error("how far the log is replicated cannot be noted", file=self._path, error=str(error))
            self._is_failing = True
        else:
            self._is_failing = False

    def remove(self) -> None:
        """Remove the file, because nobody waits for slaves any more; blocks.

        :raises OSError: the file cannot be removed.
        """
        if self._files.exists(self._path):
            self._files.unlink(self._path)
            self._files.fsync_directory(self._root)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1
