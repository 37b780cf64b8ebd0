"""Zeros in place of the bytes after the end of a file of a fixed size."""

from __future__ import annotations

from gateway.store.disk.files import FileLayer


def erase(files: FileLayer, fd: int, position: int, size: int) -> bool:
    """Erase the bytes after a position; return whether there were any.

    After a power failure such bytes may also lie after a gap of zeros. The file is not cut and grown again: a crash in
    between would leave a file of a wrong size.

    :param size: the size of the file in bytes.
    """
    found = False
    for start, end in files.data_ranges(fd, position, size):
        zeros = bytes(end - start)
        if files.pread(fd, end - start, start) != zeros:
            files.pwrite(fd, zeros, start)
            found = True
    return found
