"""A disk that fails on order: the operating system's files, until a call that was asked for.

The order is a small JSON file that another process puts in place while the broker runs:

    {"error": "EIO", "operations": ["pwrite", "pwritev"], "part": "commitlog", "after": 17, "lasting": false}

The 17th call from then on of one of the operations, on a path that contains ``part``, fails; with ``lasting`` every
call that changes anything fails from that one on, as on a disk that turned read-only. What failed is written to
``ORDER.fired``.

A failed sync is as cruel as kernels are: what was written to that file since its last sync is gone (it reads as
zeros), and the next sync of it succeeds. Who tries again and believes it loses data.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.store.disk.files import Buffer, FileLayer

CHANGES = ("open", "pwrite", "pwritev", "truncate", "fdatasync", "fsync_directory", "rename", "unlink")
MAX_UNSYNCED = 4096
"""Writes remembered per file; beyond this a failed sync forgets fewer than it might."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order to fail: which calls fail, and when; see the module."""

    error: str
    operations: tuple[str, ...]
    after: int
    part: str = ""
    lasting: bool = False

    def write(self, path: Path) -> None:
        """Put it in place at once, so that nobody reads half of it."""
        beside = path.with_name(path.name + ".new")
        fields = {name: getattr(self, name) for name in self.__slots__}
        beside.write_text(json.dumps(fields))
        beside.rename(path)

    @classmethod
    def read(cls, path: Path) -> Order | None:
        try:
            fields = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        return cls(**{**fields, "operations": tuple(fields["operations"])})


@dataclass(frozen=True, slots=True)
class Fired:
    """The call that failed."""

    operation: str
    path: str

    @property
    def is_log(self) -> bool:
        """Return whether messages were concerned, and not only derived data."""
        return "/commitlog/" in self.path

    @classmethod
    def read(cls, order: Path) -> Fired | None:
        """Return what became of an order; None if nothing happened yet."""
        try:
            return cls(**json.loads(fired_path(order).read_text()))
        except FileNotFoundError:
            return None


def fired_path(order: Path) -> Path:
    return order.with_name(order.name + ".fired")


class FailingFiles(FileLayer):
    """``FileLayer`` with an eye on an order."""

    def __init__(self, order: Path) -> None:
        self._order_path = order
        self._order: Order | None = None
        self._calls = 0
        self._has_fired = False
        self._lock = threading.Lock()
        self._paths: dict[int, str] = {}
        self._unsynced: dict[int, list[tuple[int, int]]] = {}

    def _maybe_fail(self, operation: str, path: str) -> None:
        with self._lock:
            order = self._order = self._order or Order.read(self._order_path)
            if order is None:
                return
            if self._has_fired:
                if order.lasting:
                    raise _error(order, path)
                return
            if operation not in order.operations or order.part not in path:
                return
            self._calls += 1
            if self._calls < order.after:
                return
            self._has_fired = True
            beside = fired_path(self._order_path).with_suffix(".new")
            beside.write_text(json.dumps({"operation": operation, "path": path}))
            beside.rename(fired_path(self._order_path))
        raise _error(order, path)

    def open(self, path: Path, *, create: bool = False) -> int:
        if create:
            self._maybe_fail("open", str(path))
        fd = super().open(path, create=create)
        self._paths[fd] = str(path)
        self._unsynced[fd] = []
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        self._unsynced.pop(fd, None)
        super().close(fd)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        self._maybe_fail("pwrite", self._paths.get(fd, ""))
        super().pwrite(fd, data, offset)
        self._remember(fd, offset, len(data))

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        if len(buffers) > 1:  # a single one becomes a pwrite
            self._maybe_fail("pwritev", self._paths.get(fd, ""))
        super().pwritev(fd, buffers, offset)
        if len(buffers) > 1:
            self._remember(fd, offset, sum(map(len, buffers)))

    def _remember(self, fd: int, offset: int, count: int) -> None:
        unsynced = self._unsynced.setdefault(fd, [])
        if len(unsynced) < MAX_UNSYNCED:
            unsynced.append((offset, count))

    def truncate(self, fd: int, size: int) -> None:
        self._maybe_fail("truncate", self._paths.get(fd, ""))
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        unsynced = self._unsynced.setdefault(fd, [])
        taken = unsynced[:]
        try:
            self._maybe_fail("fdatasync", self._paths.get(fd, ""))
        except OSError:
            for offset, count in taken:
                os.pwrite(fd, bytes(count), offset)
            del unsynced[: len(taken)]
            raise
        super().fdatasync(fd)
        del unsynced[: len(taken)]  # not what another thread wrote meanwhile

    def fsync_directory(self, path: Path) -> None:
        self._maybe_fail("fsync_directory", f"{path}/")
        super().fsync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._maybe_fail("rename", str(target))
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._maybe_fail("unlink", str(path))
        super().unlink(path)


def _error(order: Order, path: str) -> OSError:
    number = getattr(errno, order.error)
    return OSError(number, os.strerror(number), path)
