"""Zeros in place of what lies behind the end of a file of a fixed size."""

from __future__ import annotations

from gateway.store.disk.files import FileLayer


def erase(files: FileLayer, fd: int, position: int, size: int) -> bool:
    """Erase what follows a position, after a power failure also behind a gap of zeros; whether there was any.

    Not by cutting the file and growing it again: a crash in between would leave one of a wrong size.

    :param size: of the file.
    """
    found = False
    for start, end in files.data_ranges(fd, position, size):
        zeros = bytes(end - start)
        if files.pread(fd, end - start, start) != zeros:
            files.pwrite(fd, zeros, start)
            found = True
    return found
