"""One file of the commit log: sparse, of a fixed size, made when first needed.

Written with positioned writes and served with positioned reads: a read error is an exception instead of a signal,
the interpreter lock is free while the disk works, and pages of the log do not count as memory of the process.
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
"""So far ahead of the log a file is prepared at most."""
PREPARED_LEAST_BYTES = 64 * 1024
"""With less than this left it is prepared anew."""
_ZEROS = memoryview(bytes(PREPARED_BYTES))


class MappedFile:
    """Bytes ``start_offset`` … ``start_offset + size`` of the log.

    Any thread may use it. The descriptor stays open while somebody refers to the object, so that a reader in another
    thread outlives the file's deletion.
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
        """Open it, when it is not.

        :param create: make the file, at its full size and durable in its directory, when it is missing. Readers must
            not: the file may have been deleted as expired.
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
            files.unlink(self.path)  # or the next attempt would take it for one that is durable
            raise
        return fd

    @property
    def is_open(self) -> bool:
        """Whether the file was opened or made already."""
        return self._file is not None

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write buffers one after the other from ``position`` of the file on."""
        with self._opened(create=True).lend() as fd:
            self._files.pwritev(fd, buffers, position)

    def read(self, position: int, count: int) -> bytes:
        """A copy of ``count`` bytes; none when the file was deleted before it was ever opened.

        :raises OSError: it cannot be read; with the name of the file.
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
        """As ``read`` of what is in memory; None when it would wait for the disk, to open the file or to read it."""
        file = self._file
        if file is None:
            return None
        with file.lend() as fd:
            return self._files.pread_now(fd, count, position)

    def read_ahead(self, position: int, count: int) -> None:
        """Ask for bytes to be brought into memory; only for a file that was read already."""
        file = self._file
        if file is not None:
            with file.lend() as fd:
                self._files.read_ahead(fd, position, min(count, self.size - position))

    def prepare(self, position: int) -> None:
        """Write zeros where the log goes on, from ``position`` on, when few are left. Only with a sync after it.

        A file system has to find room for bytes that come into a hole, and a sync to bring the file's new map to the
        disk as well, which takes it longer than the bytes do. Bytes in the place of zeros are all that changes. What
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
        """Return when what was written is on disk."""
        with self._opened().lend() as fd:
            self._files.fdatasync(fd)

    def erase(self, position: int) -> None:
        """Make everything from ``position`` on zeros again, durably.

        Not by cutting the file and growing it again: a crash in between would leave one of a wrong size. Only a disk
        without room for zeros (one that copies on write) gets it that way.
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
        """The position after the last byte that is not zero, ``start`` when there is none from there on."""
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
