"""One file of the commit log: sparse, of a fixed size, made when first needed.

Written with positioned writes and served with positioned reads: a read error is an exception instead of a signal,
the interpreter lock is free while the disk works, and pages of the log do not count as memory of the process. The
read-only map is for recovery, which walks through whole files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from gateway.store.files import Buffer, FileLayer


class MappedFile:
    """Bytes ``start_offset`` … ``start_offset + size`` of the log.

    Any thread may use it. The descriptor is given back when the last reference is gone, so that a reader in another
    thread outlives the file's deletion.
    """

    __slots__ = ("_fd", "_files", "_lock", "path", "size", "start_offset")

    def __init__(self, files: FileLayer, path: Path, start_offset: int, size: int) -> None:
        self._files = files
        self._fd = -1
        self._lock = Lock()
        self.path = path
        self.start_offset = start_offset
        self.size = size

    def open(self) -> int:
        """The descriptor; makes the file, at its full size and durable in its directory, when it is missing."""
        if self._fd >= 0:
            return self._fd
        with self._lock:
            if self._fd < 0:
                self._fd = self._open_or_make()
            return self._fd

    def _open_or_make(self) -> int:
        files = self._files
        is_new = not files.exists(self.path)
        fd = files.open(self.path, create=is_new)
        try:
            if files.size(fd) != self.size:
                files.truncate(fd, self.size)
                files.fdatasync(fd)
            if is_new:
                files.fsync_directory(self.path.parent)
        except OSError:
            files.close(fd)
            raise
        return fd

    @property
    def is_open(self) -> bool:
        """Whether the file was opened or made already."""
        return self._fd >= 0

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write buffers one after the other from ``position`` of the file on."""
        self._files.pwritev(self.open(), buffers, position)

    def read(self, position: int, count: int) -> bytes:
        """A copy of ``count`` bytes."""
        return self._files.pread(self.open(), count, position)

    def sync(self) -> None:
        """Return when what was written is on disk."""
        self._files.fdatasync(self.open())

    def erase(self, position: int) -> None:
        """Make everything from ``position`` on a hole again, durably."""
        fd = self.open()
        self._files.truncate(fd, position)
        self._files.truncate(fd, self.size)
        self._files.fdatasync(fd)

    def view(self) -> memoryview:
        """The whole file as read-only memory; for scans, to be dropped soon."""
        return memoryview(self._files.map_read(self.open(), self.size))

    def data_end(self, start: int) -> int:
        """The position after the last byte that is not zero, ``start`` when there is none from there on."""
        ranges = self._files.data_ranges(self.open(), start, self.size)
        for first, end in reversed(ranges):
            while end > first:
                begin = max(first, end - _CHUNK_BYTES)
                written = self.read(begin, end - begin).rstrip(b"\x00")
                if written:
                    return begin + len(written)
                end = begin
        return start

    def __del__(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1


_CHUNK_BYTES = 1024 * 1024
