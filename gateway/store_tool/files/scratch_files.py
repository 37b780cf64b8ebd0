"""A store directory as a server sees it, without any change to its files: every write goes elsewhere.

For commands that only look, but need what a server's start makes from the files: recovery, queues, state stores. A file
is copied without its holes right before its first byte would change; until then the file is only read. The caller holds
the locks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from gateway.store.disk.files import Buffer, EntryKind, FileLayer
from gateway.store_tool.files.directory import open_to_read
from gateway.store_tool.files.sparse_copy import copy_sparsely


class ScratchFiles(FileLayer):
    """A ``FileLayer`` that writes only to copies.

    :param scratch: an empty directory elsewhere; the caller removes it.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._numbers = itertools.count()
        self._now_at: dict[Path, Path | None] = {}
        """The present file of each path whose content is elsewhere; None if the path was removed."""
        self._read_only: dict[int, Path] = {}

    def open(self, path: Path, *, create: bool = False) -> int:
        """Implement ``FileLayer.open``."""
        where = self._now_at.get(path, path)
        if where is not None and where.exists():
            if path in self._now_at:
                return super().open(where)
            fd = open_to_read(path)
            self._read_only[fd] = path
            return fd
        if not create:
            raise FileNotFoundError(2, os.strerror(2), str(path))
        self._now_at[path] = where = self._new_name()
        return super().open(where, create=True)

    def close(self, fd: int) -> None:
        """Implement ``FileLayer.close``."""
        self._read_only.pop(fd, None)
        super().close(fd)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        """Implement ``FileLayer.pwrite``."""
        self._make_writable(fd)
        super().pwrite(fd, data, offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        """Implement ``FileLayer.pwritev``."""
        self._make_writable(fd)
        super().pwritev(fd, buffers, offset)

    def truncate(self, fd: int, size: int) -> None:
        """Implement ``FileLayer.truncate``."""
        self._make_writable(fd)
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        """Do nothing, because nothing here has to outlive the command."""

    def fsync_directory(self, path: Path) -> None:
        """Do nothing, because nothing here has to outlive the command."""

    def rename(self, source: Path, target: Path) -> None:
        """Implement ``FileLayer.rename``."""
        where = self._now_at.get(source, source)
        if where is None or not where.exists():
            raise FileNotFoundError(2, os.strerror(2), str(source))
        self._now_at[target] = where
        self._now_at[source] = None

    def unlink(self, path: Path) -> None:
        """Implement ``FileLayer.unlink``."""
        self._now_at[path] = None

    def make_directory(self, path: Path) -> None:
        """Do nothing, because only the names of files count here."""

    def remove_directory(self, path: Path) -> None:
        """Do nothing, because only the names of files count here."""

    def list(self, path: Path) -> list[str]:
        """Implement ``FileLayer.list``."""
        names = set(super().list(path))
        for changed, where in self._now_at.items():
            if changed.parent == path:
                names.add(changed.name) if where is not None else names.discard(changed.name)
        return sorted(names)

    def exists(self, path: Path) -> bool:
        """Implement ``FileLayer.exists``."""
        where = self._now_at.get(path, path)
        return where is not None and where.exists()

    def kind(self, path: Path) -> EntryKind:
        """Implement ``FileLayer.kind``."""
        where = self._now_at.get(path, path)
        return EntryKind.MISSING if where is None else super().kind(where)

    def modified_at_ms(self, path: Path) -> int:
        """Implement ``FileLayer.modified_at_ms``."""
        return super().modified_at_ms(self._now_at.get(path, path) or path)

    def modified_all(self, directory: Path, names: Sequence[str]) -> Sequence[int]:
        """Implement ``FileLayer.modified_all``."""
        found = super().modified_all(directory, names)
        if not self._now_at:
            return found
        paths = [directory / name for name in names]
        return [
            self._modified_ns(self._now_at[path]) if path in self._now_at else ns
            for path, ns in zip(paths, found, strict=True)
        ]

    def _modified_ns(self, where: Path | None) -> int:
        return -1 if where is None else super().modified_all(where.parent, [where.name])[0]

    def lock(self, fd: int) -> bool:  # noqa: ARG002 (others are kept out by who uses this)
        """Return True without a lock, because the caller keeps others out."""
        return True

    def copied_database(self, path: Path) -> Path:
        """Copy a SQLite file with its write-ahead log, and return the copy for SQLite to open."""
        copy = self._new_name()
        for ending in ("", "-wal"):
            if (part := path.with_name(path.name + ending)).exists():
                copy_sparsely(part, copy.with_name(copy.name + ending), lambda _: None)
        return copy

    def _make_writable(self, fd: int) -> None:
        """Copy the file of a read-only descriptor, and move every descriptor of the file to the copy."""
        path = self._read_only.get(fd)
        if path is None:
            return
        self._now_at[path] = copy = self._new_name()
        copy_sparsely(path, copy, lambda _: None)
        for other in [other for other, read in self._read_only.items() if read == path]:
            writable = super().open(copy)
            os.dup2(writable, other, inheritable=False)
            os.close(writable)
            del self._read_only[other]

    def _new_name(self) -> Path:
        return self._scratch / str(next(self._numbers))
