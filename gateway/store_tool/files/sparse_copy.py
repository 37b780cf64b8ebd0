"""Copy a file without its holes, and read the copy back."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.store_tool.errors import CannotRun
from gateway.store_tool.files.directory import open_to_read

_CHUNK_BYTES = 1 << 20


def copy_sparsely(source: Path, target: Path, tell: Callable[[int], None]) -> None:
    """Make ``target``, which must not exist, equal to ``source``; durable when this returns.

    :param tell: called now and then with the number of bytes read since the last call.
    :raises CannotRun: the bytes read back differ from the bytes written.
    :raises OSError: either disk reports an error.
    """
    files = FileLayer()
    reading = open_to_read(source)
    try:
        writing = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            size = files.size(reading)
            files.truncate(writing, size)
            sums = [
                _copy_range(files, reading, writing, start, end, tell)
                for start, end in files.data_ranges(reading, 0, size)
            ]
            files.fdatasync(writing)
            if hasattr(os, "posix_fadvise"):  # read back from the disk, not from memory
                os.posix_fadvise(writing, 0, 0, os.POSIX_FADV_DONTNEED)
            ranges = files.data_ranges(reading, 0, size)
            if sums != [_checksum(files, writing, start, end) for start, end in ranges]:
                raise CannotRun(f"{target} does not read back as {source} does: do not trust the disk it is on")
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    stat = source.stat()
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # retention goes by it


def _copy_range(files: FileLayer, reading: int, writing: int, start: int, end: int, tell: Callable[[int], None]) -> int:
    checksum = 0
    for position in range(start, end, _CHUNK_BYTES):
        data = files.pread(reading, min(_CHUNK_BYTES, end - position), position)
        checksum = zlib.crc32(data, checksum)
        if data.strip(b"\x00"):  # zeros stay a hole
            files.pwrite(writing, data, position)
        tell(len(data))
    return checksum


def _checksum(files: FileLayer, fd: int, start: int, end: int) -> int:
    checksum = 0
    for position in range(start, end, _CHUNK_BYTES):
        checksum = zlib.crc32(files.pread(fd, min(_CHUNK_BYTES, end - position), position), checksum)
    return checksum
