"""A disk under which all open files are let go in the middle of each call, and their numbers are taken by another file.

What another thread does at the worst moment, done always: a call arrives only if its descriptor was kept open for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.store.disk.files import Buffer, FileLayer


class LosingFiles(FileLayer):
    """All ``losses`` are called at the beginning of each call.

    ``arrived`` names the calls whose descriptor still was that of the right file afterwards, ``astray`` all others;
    these are done on the right file as well, so that the work goes on.

    :param foreign: a file that gets the numbers.
    """

    def __init__(self, foreign: Path) -> None:
        self.losses: list[Callable[[], None]] = []
        self.arrived: list[str] = []
        self.astray: list[str] = []
        self.open_files: dict[int, Path] = {}
        foreign.write_bytes(b"foreign")
        self._foreign = os.open(foreign, os.O_RDWR)
        self._taken: list[int] = []
        self._right = Path()

    def end(self) -> None:
        """Close what the numbers were taken with."""
        self.losses.clear()
        for fd in [self._foreign, *self._taken]:
            os.close(fd)

    def open(self, path: Path, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self.open_files[fd] = path
        return fd

    def close(self, fd: int) -> None:
        del self.open_files[fd]
        super().close(fd)

    def _done(self, call: str, fd: int, do: Callable[[int], object]) -> object:
        if not self.losses:
            return do(fd)
        path = self.open_files.get(fd)
        for lose in self.losses:
            lose()
        if path is not None and self.open_files.get(fd) == path:
            self.arrived.append(call)
            return do(fd)
        self.astray.append(call)
        if path is not None:
            os.dup2(self._foreign, fd)
            self._taken.append(fd)
            self._right = path
        right = os.open(self._right, os.O_RDWR)
        try:
            return do(right)
        finally:
            os.close(right)

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        return self._done("pread", fd, lambda own: FileLayer.pread(self, own, count, offset))  # type: ignore[return-value]

    def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
        return self._done("pread_now", fd, lambda own: FileLayer.pread(self, own, count, offset))  # type: ignore[return-value]

    def read_ahead(self, fd: int, offset: int, count: int) -> None:
        self._done("read_ahead", fd, lambda own: FileLayer.read_ahead(self, own, offset, count))

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        self._done("pwrite", fd, lambda own: FileLayer.pwrite(self, own, data, offset))

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        self._done("pwritev", fd, lambda own: os.pwritev(own, buffers, offset))

    def truncate(self, fd: int, size: int) -> None:
        self._done("truncate", fd, lambda own: FileLayer.truncate(self, own, size))

    def fdatasync(self, fd: int) -> None:
        self._done("fdatasync", fd, lambda own: FileLayer.fdatasync(self, own))

    def size(self, fd: int) -> int:
        return self._done("size", fd, lambda own: FileLayer.size(self, own))  # type: ignore[return-value]

    def data_ranges(self, fd: int, start: int, end: int) -> Sequence[tuple[int, int]]:
        return self._done("data_ranges", fd, lambda own: FileLayer.data_ranges(self, own, start, end))  # type: ignore[return-value]
