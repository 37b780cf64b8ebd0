"""One file of the commit log: sparse, of a fixed size, made when first needed.

The file is written with positioned writes and read with positioned reads: a read error is an exception instead of a
signal, the interpreter lock is free while the disk works, and pages of the log do not count as memory of the process.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from gateway.store.disk.files import Buffer, FileLayer
from gateway.store.disk.open_files import OpenFile

PREPARED_BYTES = 256 * 1024
"""The most bytes by which a file is prepared ahead of the log."""
PREPARED_LEAST_BYTES = 64 * 1024
"""The number of prepared bytes below which the file is prepared again."""
_ZEROS = memoryview(bytes(PREPARED_BYTES))


class MappedFile:
    """The file with the bytes ``start_offset`` … ``start_offset + size`` of the log.

    Any thread may use the file. The descriptor stays open while any code refers to the object, so that a reader in
    another thread can still read after the file's deletion.
    """

    __slots__ = ("_file", "_files", "_lock", "_prepared_to", "path", "size", "start_offset")

    def __init__(self, files: FileLayer, path: Path, start_offset: int, size: int) -> None:
        self._files = files
        self._file: OpenFile | None = None
        self._lock = Lock()
        self._prepared_to = 0
        self.path = path
        self.start_offset = start_offset
        self.size = size

    def open(self, *, create: bool = False) -> None:
        """Open the file, unless it is open.

        :param create: True to make a missing file, at its full size and durable in its directory. Readers must not: the
            file may have been deleted as expired.
        """
        self._opened(create)

    def _opened(self, create: bool = False) -> OpenFile:
        file = self._file
        if file is None:
            with self._lock:
                file = self._file
                if file is None:
                    is_new = create and not self._files.exists(self.path)
                    file = OpenFile(self._files, self._make() if is_new else self._files.open(self.path))
                    self._file = file
        return file

    def _make(self) -> int:
        files = self._files
        fd = files.open(self.path, create=True)
        try:
            files.truncate(fd, self.size)
            files.fdatasync(fd)
            files.fsync_directory(self.path.parent)
        except OSError:
            files.close(fd)
            files.unlink(self.path)  # otherwise the next attempt would take the file for a durable one
            raise
        return fd

    @property
    def is_open(self) -> bool:
        """True if the file was already opened or made."""
        return self._file is not None

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write buffers one after the other from ``position`` of the file on."""
        with self._opened(create=True).lend() as fd:
            self._files.pwritev(fd, buffers, position)

    def read(self, position: int, count: int) -> bytes:
        """Return a copy of ``count`` bytes; b"" if the file was deleted before it was ever opened.

        :raises OSError: the bytes cannot be read; the error names the file.
        """
        try:
            file = self._opened()
        except FileNotFoundError:
            return b""
        try:
            with file.lend() as fd:
                return self._files.pread(fd, count, position)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} at byte {position}", str(self.path)) from error

    def read_now(self, position: int, count: int) -> bytes | None:
        """Return the result of ``read`` if it is in memory.

        Return None if to open or read the file would wait for the disk.
        """
        file = self._file
        if file is None:
            return None
        with file.lend() as fd:
            return self._files.pread_now(fd, count, position)

    def read_ahead(self, position: int, count: int) -> None:
        """Ask the system to bring bytes into memory; only for a file that was already opened."""
        file = self._file
        if file is not None:
            with file.lend() as fd:
                self._files.read_ahead(fd, position, min(count, self.size - position))

    def prepare(self, position: int) -> None:
        """Write zeros from ``position`` on, where the log goes on, if few zeros are left. Only before a sync.

        For bytes written into a hole, a file system has to find room. A sync then also has to bring the file's new map
        to the disk, which takes longer than the bytes do. If bytes replace zeros, only the bytes change. The part that
        cannot be prepared for lack of space stays a hole.
        """
        if min(position + PREPARED_LEAST_BYTES, self.size) <= self._prepared_to:
            return
        start, end = max(position, self._prepared_to), min(position + PREPARED_BYTES, self.size)
        try:
            with self._opened().lend() as fd:
                self._files.pwrite(fd, _ZEROS[: end - start], start)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        self._prepared_to = end

    def sync(self) -> None:
        """Return when the written bytes are on disk."""
        with self._opened().lend() as fd:
            self._files.fdatasync(fd)

    def erase(self, position: int) -> None:
        """Make everything from ``position`` on zeros again, durably.

        The file is not cut and grown again: a crash in between would leave a file of a wrong size. Only on a disk
        without room for zeros (a disk that copies on write) the file is cut and grown.
        """
        files = self._files
        with self._opened().lend() as fd:
            try:
                for start, end in files.data_ranges(fd, position, self.size):
                    for first in range(start, end, _CHUNK_BYTES):
                        files.pwrite(fd, bytes(min(end - first, _CHUNK_BYTES)), first)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                files.truncate(fd, position)
                files.truncate(fd, self.size)
            files.fdatasync(fd)

    def data_end(self, start: int) -> int:
        """Return the position after the last byte that is not zero; ``start`` if there are only zeros from there on."""
        with self._opened().lend() as fd:
            ranges = self._files.data_ranges(fd, start, self.size)
        for first, end in reversed(ranges):
            while end > first:
                begin = max(first, end - _CHUNK_BYTES)
                written = self.read(begin, end - begin).rstrip(b"\x00")
                if written:
                    return begin + len(written)
                end = begin
        return start


_CHUNK_BYTES = 1024 * 1024
