"""A file to which lines are appended, and which is renamed when it is full: audit files are such files.

audit.jsonl      the lines that came last
audit.jsonl.1    the file that was full before, and so on; the oldest one is overwritten
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
)  # no open waits for a pipe under the name of the file


class RotatedLines:
    """The files of one name. Each call opens the file again; all methods block and may run in any thread.

    :param max_bytes: the size that no file exceeds, unless the lines of one call are longer.
    :param files: the number of files, with the one that is being written.
    :param lock: makes the lock that keeps other writers away.
    :param mode: the permissions of the file; None leaves an existing file's permissions as they are.
    :param syncs: whether lines are on disk when ``append`` returns.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        files: int,
        lock: Callable[[], AbstractContextManager[Any]],
        mode: int | None = None,
        syncs: bool = False,
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._files = files
        self._lock = lock
        self._mode = mode
        self._syncs = syncs
        self._is_named = False
        """True if the file's name is known to be on disk."""

    def append(self, text: bytes) -> None:
        """Append whole lines, each with its line break, or nothing.

        :raises OSError: the disk is full, or the file cannot be written.
        """
        with self._lock():
            descriptor = self._opened()
            try:
                size = os.fstat(descriptor).st_size
                if size and size + len(text) > self._max_bytes:
                    self._rotate(descriptor)
                    os.close(descriptor)
                    descriptor = -1
                    descriptor, size = self._opened(), 0
                self._append(descriptor, size, text)
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
            if self._syncs and not (size and self._is_named):
                self._sync_directory()

    def _opened(self) -> int:
        descriptor = os.open(self.path, _FLAGS, 0o644 if self._mode is None else self._mode)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is no file", str(self.path))
            if self._mode is not None:
                os.fchmod(descriptor, self._mode)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _append(self, descriptor: int, size: int, text: bytes) -> None:
        if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a crash cut the last line
            text = b"\n" + text
        try:
            rest = text
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if self._syncs:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise

    def _rotate(self, descriptor: int) -> None:
        self._is_named = False
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{number}") for number in range(1, self._files))]
        if self._files == 1:
            os.ftruncate(descriptor, 0)
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)

    def _sync_directory(self) -> None:
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._is_named = True
