"""A disk in memory that logs every change: the store's ``FileLayer`` and the tables' ``ConfigDisk`` at once.

The log is what ``image`` makes crash images from. Contents are immutable until first written, so that hundreds of
disks share the files of one image.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeVar

from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.store.disk.files import Buffer, DiskSpace, EntryKind, FileLayer

GIB = 1024**3
SECTOR_BYTES = 512
"""A disk writes as many, or none of them."""
Entry = TypeVar("Entry")


class Kind(Enum):
    """The kind of a change."""

    MAKE = "make"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "fdatasync"
    FAILED_SYNC = "failed fdatasync"
    SYNC_DIRECTORY = "fsync directory"
    RENAME = "rename"
    LINK = "link"
    UNLINK = "unlink"
    MAKE_DIRECTORY = "make directory"
    REMOVE_DIRECTORY = "remove directory"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the log.

    :param path: the file's name at that time, or the directory.
    :param inode: the file; −1 for directories.
    :param offset: of a write, or the size that a truncate leaves.
    :param target: the new name of a rename or link.
    :param at_ms: when, by the disk's clock.
    """

    kind: Kind
    path: str
    inode: int = -1
    offset: int = 0
    data: bytes = b""
    target: str = ""
    at_ms: int = 0

    def __str__(self) -> str:
        what = {
            Kind.WRITE: f" {len(self.data)} bytes at {self.offset}",
            Kind.TRUNCATE: f" to {self.offset}",
            Kind.RENAME: f" to {self.target}",
            Kind.LINK: f" as {self.target}",
        }.get(self.kind, "")
        return f"{self.kind.value} {self.path}{what}"


@dataclass(frozen=True, slots=True)
class File:
    """A file as an image has it."""

    content: bytes
    modified_at_ms: int
    inode: int


@dataclass(frozen=True, slots=True)
class Image:
    """Everything on a disk: files by path, and directories with the time of their last change.

    :param run: counts the starts of the system.
    """

    files: Mapping[str, File]
    directories: Mapping[str, int]
    run: int = 0

    def fingerprint(self) -> int:
        """Equal for equal contents (within one process)."""
        # Contents are shared between images, and bytes remember their hash.
        contents = frozenset((path, file.content) for path, file in self.files.items())
        return hash((contents, frozenset(self.directories), self.run))


class Inode:
    """A file, whatever its names are. A plain class: it is what a disk is made of."""

    __slots__ = ("data", "modified_at_ms", "number", "path")

    def __init__(self, number: int, path: str, data: bytes, modified_at_ms: int) -> None:
        self.number = number
        self.path = path
        self.data: bytes | bytearray = data
        self.modified_at_ms = modified_at_ms

    def writable(self) -> bytearray:
        """The bytes, to be changed."""
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        return self.data


class Fault(NamedTuple):
    """The next call of an operation ("pwrite" or "fdatasync") on a path with this part fails."""

    operation: str
    part: str
    code: int = errno.EIO

    def error(self, path: str) -> OSError:
        """Return the error that the call raises."""
        return OSError(self.code, os.strerror(self.code), path)


class RecordingFiles(FileLayer, ConfigDisk):
    """The disk.

    :param image: what is on it at first; all of that is durable.
    :param clock_ms: times of modification.
    """

    def __init__(self, image: Image, clock_ms: Callable[[], int]) -> None:
        self.image = image
        self._clock_ms = clock_ms
        self.changes: list[Change] = []
        self.space = DiskSpace(100 * GIB, 90 * GIB)
        self.fault: Fault | None = None
        self._inodes: dict[str, Inode] = {}
        self._directories = dict(image.directories)
        self._open: dict[int, Inode] = {}
        self._next_fd = 3
        self._next_inode = 1 + max((file.inode for file in image.files.values()), default=0)
        linked: dict[int, Inode] = {}
        for path, file in image.files.items():
            inode = linked.get(file.inode)
            if inode is None:
                inode = linked[file.inode] = Inode(file.inode, path, file.content, file.modified_at_ms)
            self._inodes[path] = inode

    def log(self, change: Change) -> None:
        """Take note of a change; mutants leave some out."""
        self.changes.append(change)

    def _log_name(self, kind: Kind, path: str, inode: int = -1, target: str = "") -> None:
        now_ms = self._clock_ms()
        self._directories[path.rpartition("/")[0] or "/"] = now_ms
        self.log(Change(kind, path, inode, target=target, at_ms=now_ms))

    # --- descriptors ---------------------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> int:
        """Implement ``FileLayer``."""
        name = str(path)
        inode = self._inodes.get(name)
        if inode is None:
            if name in self._directories:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
            if not create or str(path.parent) not in self._directories:
                raise _missing(name)
            inode = self._inodes[name] = Inode(self._next_inode, name, b"", self._clock_ms())
            self._next_inode += 1
            self._log_name(Kind.MAKE, name, inode.number)
        fd = self._next_fd
        self._next_fd += 1
        self._open[fd] = inode
        return fd

    def close(self, fd: int) -> None:
        """Implement ``FileLayer``."""
        del self._open[fd]

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Implement ``FileLayer``."""
        return bytes(self._open[fd].data[offset : offset + count])

    sees_memory = True

    def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
        """Implement ``FileLayer``."""
        data = self.pread(fd, count, offset)
        return data if len(data) == count else None

    def read_ahead(self, fd: int, offset: int, count: int) -> None:
        """Implement ``FileLayer``."""

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        """Implement ``FileLayer``."""
        inode = self._open[fd]
        inode.modified_at_ms = now_ms = self._clock_ms()
        fault = self._take_fault("pwrite", inode.path)
        # Up to a sector, where a system stops as well.
        middle = offset + len(data) // 2
        copy = bytes(data) if fault is None else bytes(data)[: max(middle - middle % SECTOR_BYTES - offset, 0)]
        overwrite(inode.writable(), offset, copy)
        self.log(Change(Kind.WRITE, inode.path, inode.number, offset, copy, at_ms=now_ms))
        if fault is not None:
            raise fault.error(inode.path)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        """Implement ``FileLayer``."""
        self.pwrite(fd, b"".join(buffers), offset)

    def truncate(self, fd: int, size: int) -> None:
        """Implement ``FileLayer``."""
        inode = self._open[fd]
        inode.modified_at_ms = now_ms = self._clock_ms()
        resize(inode.writable(), size)
        self.log(Change(Kind.TRUNCATE, inode.path, inode.number, size, at_ms=now_ms))

    def fdatasync(self, fd: int) -> None:
        """Implement ``FileLayer``."""
        inode = self._open[fd]
        if (fault := self._take_fault("fdatasync", inode.path)) is not None:
            self.log(Change(Kind.FAILED_SYNC, inode.path, inode.number))
            raise fault.error(inode.path)
        self.log(Change(Kind.SYNC, inode.path, inode.number))

    def _take_fault(self, operation: str, path: str) -> Fault | None:
        """The fault, if this is the call that was to fail."""
        fault = self.fault
        if fault is None or fault.operation != operation or fault.part not in path:
            return None
        self.fault = None
        return fault

    def size(self, fd: int) -> int:
        """Implement ``FileLayer``."""
        return len(self._open[fd].data)

    def data_ranges(self, fd: int, start: int, end: int) -> Sequence[tuple[int, int]]:
        """Implement ``FileLayer``."""
        end = min(end, len(self._open[fd].data))
        return [(start, end)] if start < end else []

    def lock(self, fd: int) -> bool:
        """Implement ``FileLayer``."""
        return True

    # --- names ---------------------------------------------------------------------------------------------------

    def rename(self, source: Path, target: Path) -> None:
        """Implement ``FileLayer``."""
        old, new = str(source), str(target)
        if old in self._directories:
            self._log_name(Kind.RENAME, old, target=new)
            move_below(self._directories, old, new)
            move_below(self._inodes, old, new)
            return
        inode = self._inode(old)
        self._log_name(Kind.RENAME, old, inode.number, new)
        del self._inodes[old]
        inode.path = new
        self._inodes[new] = inode

    def link(self, source: Path, target: Path) -> None:
        """Implement ``ConfigDisk``."""
        old, new = str(source), str(target)
        inode = self._inode(old)
        if new in self._inodes:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        self._log_name(Kind.LINK, old, inode.number, new)
        self._inodes[new] = inode

    def unlink(self, path: Path) -> None:
        """Implement ``FileLayer``."""
        name = str(path)
        inode = self._inodes.pop(name, None)
        if inode is not None:
            self._log_name(Kind.UNLINK, name, inode.number)

    def make_directory(self, path: Path) -> None:
        """Implement ``FileLayer``."""
        name = str(path)
        if name in self._directories:
            return
        if name in self._inodes:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        self.make_directory(path.parent)
        self._directories[name] = self._clock_ms()
        self._log_name(Kind.MAKE_DIRECTORY, name)

    def remove_directory(self, path: Path) -> None:
        """Implement ``FileLayer``."""
        name = str(path)
        if name in self._directories and not self.list(path):
            del self._directories[name]
            self._log_name(Kind.REMOVE_DIRECTORY, name)

    def fsync_directory(self, path: Path) -> None:
        """Implement ``FileLayer``."""
        name = str(path)
        if name not in self._directories:
            raise _missing(name)
        self.log(Change(Kind.SYNC_DIRECTORY, name))

    def list(self, path: Path) -> list[str]:
        """Implement ``FileLayer``."""
        name = str(path)
        if name in self._inodes:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        start = len(name) + 1
        prefix = f"{name}/"
        below = (*self._inodes, *self._directories)
        return sorted(found[start:] for found in below if found.startswith(prefix) and "/" not in found[start:])

    def exists(self, path: Path) -> bool:
        """Implement ``FileLayer``."""
        name = str(path)
        return name in self._inodes or name in self._directories

    def kind(self, path: Path) -> EntryKind:
        """Implement ``FileLayer``."""
        name = str(path)
        if name in self._inodes:
            return EntryKind.FILE
        return EntryKind.DIRECTORY if name in self._directories else EntryKind.MISSING

    def modified_all(self, directory: Path, names: Sequence[str]) -> Sequence[int]:
        """Implement ``FileLayer``."""
        paths = [directory / name for name in names]
        return [self.modified_at_ms(path) if self.exists(path) else -1 for path in paths]

    def modified_at_ms(self, path: Path) -> int:
        """Implement ``FileLayer``."""
        name = str(path)
        directory = self._directories.get(name)
        return self._inode(name).modified_at_ms if directory is None else directory

    def disk_space(self, path: Path) -> DiskSpace:
        """Implement ``FileLayer``."""
        return self.space

    def system_run(self) -> str:
        """Implement ``FileLayer``."""
        return f"run {self.image.run}"

    # --- whole files, for the tables -----------------------------------------------------------------------------

    def file_size(self, path: Path) -> int:
        """Implement ``ConfigDisk``."""
        return len(self._inode(str(path)).data)

    def read(self, path: Path) -> bytes:
        """Implement ``ConfigDisk``."""
        return bytes(self._inode(str(path)).data)

    def write(self, path: Path, content: bytes) -> None:
        """Implement ``ConfigDisk``."""
        fd = self.open(path, create=True)
        try:
            self.truncate(fd, 0)
            self.pwrite(fd, content, 0)
            self.fdatasync(fd)
        finally:
            self.close(fd)

    def copy(self, source: Path, target: Path) -> None:
        """Implement ``ConfigDisk``."""
        self.write(target, self.read(source))

    # --- inside --------------------------------------------------------------------------------------------------

    def _inode(self, name: str) -> Inode:
        inode = self._inodes.get(name)
        if inode is None:
            raise _missing(name)
        return inode


def overwrite(content: bytearray, offset: int, data: bytes) -> None:
    """Apply a write to the content of a file."""
    end = offset + len(data)
    if end > len(content):
        content.extend(bytes(end - len(content)))
    content[offset:end] = data


def resize(content: bytearray, size: int) -> None:
    """Apply a truncate to the content of a file."""
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def move_below(table: dict[str, Entry], old: str, new: str) -> None:
    """Apply the rename of a directory to names."""
    for name in [name for name in table if name == old or name.startswith(f"{old}/")]:
        table[new + name[len(old) :]] = table.pop(name)


def _missing(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
