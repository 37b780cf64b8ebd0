"""Files of fixed-width units that are addressed by number, for the state table and the redo log.

Each file holds the same number of units, and its name is the byte offset of its first unit. Files grow with writes and
may have holes, which read as zeros. All calls block, and only one thread may call at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import offset_name, parse_offset_name

READ_UNITS = 65_536
"""The largest number of units in one read."""
MAX_OPEN = 16
"""The largest number of open descriptors. The descriptor that was opened first is closed first."""


class UnitFiles:
    """The files of one directory.

    :param root: a directory above ``directory`` whose name is known to be on disk.
    """

    def __init__(self, files: FileLayer, root: Path, directory: Path, unit_bytes: int, file_units: int) -> None:
        self.directory = directory
        self._root = root
        self._files = files
        self._unit_bytes = unit_bytes
        self._file_bytes = unit_bytes * file_units
        self._open: dict[int, int] = {}
        self._unsynced: set[int] = set()
        self._new_name = False

    def write(self, first: int, data: bytes | bytearray) -> None:
        """Write whole units from number ``first`` on."""
        self.write_at(first * self._unit_bytes, data)

    def write_at(self, position: int, data: bytes | bytearray) -> None:
        """Write bytes at a byte position, counted over all files."""
        view = memoryview(data)
        while view:
            start = position // self._file_bytes * self._file_bytes
            part = view[: start + self._file_bytes - position]
            self._files.pwrite(self._descriptor(start), part, position - start)
            self._unsynced.add(start)
            position += len(part)
            view = view[len(part) :]

    def read(self, first: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the units from ``first`` to ``end`` in slices: the number of the first unit, and bytes.

        Missing units are zeros.
        """
        while first < end:
            position = first * self._unit_bytes
            start = position // self._file_bytes * self._file_bytes
            in_file = (start + self._file_bytes - position) // self._unit_bytes
            count = min(end - first, in_file, READ_UNITS)
            wanted = count * self._unit_bytes
            data = b""
            if self._files.exists(self._path(start)):
                data = self._files.pread(self._descriptor(start), wanted, position - start)
            yield first, data.ljust(wanted, b"\x00")
            first += count

    def sync(self) -> None:
        """Sync everything that was written, names included; return when it is on disk."""
        for start in sorted(self._unsynced):
            self._files.fdatasync(self._descriptor(start))
        self._unsynced.clear()
        if self._new_name:
            sync_names(self._files, self._root, self.directory)
            self._new_name = False

    def remove(self, first: int | None = None) -> None:
        """Remove the files that end at or below unit ``first``; all files if ``first`` is None."""
        for name in self._files.list(self.directory):
            start = parse_offset_name(name)
            if start is None or (first is not None and start + self._file_bytes > first * self._unit_bytes):
                continue
            fd = self._open.pop(start, None)
            if fd is not None:
                self._files.close(fd)
            self._unsynced.discard(start)
            self._files.unlink(self.directory / name)

    def close(self) -> None:
        """Close the descriptors."""
        for fd in self._open.values():
            self._files.close(fd)
        self._open.clear()

    def _path(self, start: int) -> Path:
        return self.directory / offset_name(start)

    def _descriptor(self, start: int) -> int:
        fd = self._open.get(start)
        if fd is not None:
            return fd
        while len(self._open) >= MAX_OPEN:
            oldest = next(iter(self._open))
            if oldest in self._unsynced:
                self._files.fdatasync(self._open[oldest])
                self._unsynced.discard(oldest)
            self._files.close(self._open.pop(oldest))
        path = self._path(start)
        if not self._files.exists(path):
            self._files.make_directory(self.directory)
            self._new_name = True
        fd = self._open[start] = self._files.open(path, create=True)
        return fd


def sync_names(files: FileLayer, root: Path, directory: Path) -> None:
    """Sync a directory and its parents up to ``root``, so that new names in them are on disk."""
    while True:
        files.fsync_directory(directory)
        if directory == root:
            return
        directory = directory.parent
