"""A file as memory, whose holes take no room when they are read.

Reading a hole through a plain map makes a tmpfs give it pages, and kills the process (SIGBUS) when none are left. So
memory of nobody's, all zeros, is laid over the holes: the same bytes, and the file is never asked for them. Linux only;
elsewhere the map is a plain one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.store.disk.files import RealFiles

MAX_COVERED_HOLES = 10_000
"""The largest ones; Linux lets a process have 65 530 maps."""
_MAP_FIXED = 0x10
_FAILED = ctypes.c_void_p(-1).value
_BUFFER_BYTES = 256
"""More than a ``Py_buffer`` takes; its first member is the address."""


@contextmanager
def sparse_map(fd: int, size: int, *, begin: int = 0) -> Iterator[mmap.mmap]:
    """The first ``size`` bytes of a file, read only; only what lies at or after ``begin`` is going to be read.

    :param size: not more than the file has, and not 0.
    :raises OSError: the file cannot be mapped.
    """
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as data:
        if hasattr(data, "madvise"):
            data.madvise(mmap.MADV_SEQUENTIAL)
        if sys.platform == "linux":
            _cover(data, _holes(fd, begin, size))
        yield data


def _holes(fd: int, begin: int, size: int) -> list[tuple[int, int]]:
    """The whole pages from that of ``begin`` on that have no data, the largest holes first."""
    page = mmap.PAGESIZE
    if size == os.fstat(fd).st_size:
        size = -(-size // page) * page  # the last page is the map's as a whole
    found = []
    position = begin // page * page
    for start, end in [*RealFiles().data_ranges(fd, position, size), (size, size)]:
        first, last = -(-position // page) * page, start // page * page
        if first < last:
            found.append((first, last))
        position = end
    found.sort(key=lambda hole: hole[0] - hole[1])
    return found[:MAX_COVERED_HOLES]


def _cover(data: mmap.mmap, holes: list[tuple[int, int]]) -> None:
    """Lay zeros over parts of a map; they go with it."""
    if not holes:
        return
    system_map = ctypes.CDLL(None, use_errno=True).mmap
    system_map.restype = ctypes.c_void_p
    system_map.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_long),
    )
    address = _address(data)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    for start, end in holes:
        if system_map(address + start, end - start, mmap.PROT_READ, flags, -1, 0) == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _address(data: mmap.mmap) -> int:
    buffer = (ctypes.c_size_t * (_BUFFER_BYTES // ctypes.sizeof(ctypes.c_size_t)))()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), ctypes.byref(buffer), ctypes.c_int(0))
    try:
        return int(buffer[0])
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
