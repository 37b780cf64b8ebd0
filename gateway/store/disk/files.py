"""The only access to the disk: everything that the store does to files goes through a ``FileLayer``.

Recording and failing layers of tests, and layers that only read, derive from it. The module decides nothing.
Descriptors are plain integers, so that a layer can keep its own records about them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

_TO_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""The flags of an open, which does not wait for a pipe or a device under the name of a file."""
MAX_BUFFERS_PER_WRITE = 1024
"""The most buffers of one write (IOV_MAX of Linux): pwritev refuses more."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The size of a partition, and how much of it an ordinary user may still take, in bytes."""

    total_bytes: int
    free_bytes: int

    @property
    def used_percent(self) -> float:
        """The used part in percent, 0 … 100."""
        return 100.0 * (self.total_bytes - self.free_bytes) / self.total_bytes if self.total_bytes else 0.0


class EntryKind(StrEnum):
    """The kind of a directory entry; for a link, the kind of its target."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "pipe, socket or device"
    LOOP = "link that leads to itself"


class FileLayer:
    """The operations that the store needs from a disk, on the operating system's files. All errors are ``OSError``."""

    sees_memory: bool = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")  # Linux; some file systems refuse
    """True if ``pread_now`` knows what is in memory; becomes False if the system proves unable to tell."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Return a descriptor for reading and writing; the file must exist unless ``create``."""
        fd = os.open(path, _TO_OPEN | (os.O_CREAT if create else 0), 0o644)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no file", str(path))

    def close(self, fd: int) -> None:
        """Close the descriptor."""
        os.close(fd)

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Return up to ``count`` bytes; fewer only at the end of the file."""
        data = os.pread(fd, count, offset)
        if len(data) == count or not data:
            return data
        parts = [data]
        got = len(data)
        while got < count and (data := os.pread(fd, count - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
        """Return the result of ``pread`` if all bytes are in memory; None if the call would have to wait for the disk.

        If the system cannot tell (``sees_memory`` is False), do the same as ``pread``.
        """
        if not self.sees_memory:
            return self.pread(fd, count, offset)
        data = bytearray(count)
        try:
            got = os.preadv(fd, (data,), offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            self.sees_memory = False
            return self.pread(fd, count, offset)
        return bytes(data) if got == count else None

    def read_ahead(self, fd: int, offset: int, count: int) -> None:
        """Ask the system to bring bytes into memory; does not wait for them, and may do nothing."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, offset, count, os.POSIX_FADV_WILLNEED)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        """Write all of ``data``."""
        written = os.pwrite(fd, data, offset)
        if written != len(data):
            self._rest(fd, memoryview(data)[written:], offset + written)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all buffers, one after the other, as one write if the system allows this."""
        if len(buffers) == 1:
            self.pwrite(fd, buffers[0], offset)
            return
        for first in range(0, len(buffers), MAX_BUFFERS_PER_WRITE):
            part = buffers[first : first + MAX_BUFFERS_PER_WRITE]
            size = sum(map(len, part))
            written = os.pwritev(fd, part, offset)
            if written != size:
                self._rest(fd, memoryview(b"".join(part))[written:], offset + written)
            offset += size

    def _rest(self, fd: int, data: memoryview, offset: int) -> None:
        """Go on after a short write: the next attempt completes the write or raises its reason (mostly a full disk)."""
        while data:
            written = os.pwrite(fd, data, offset)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[written:]
            offset += written

    def truncate(self, fd: int, size: int) -> None:
        """Cut or grow the file to ``size`` bytes; new bytes are a hole that reads as zeros."""
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        """Return when the file's bytes and its size are on disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:  # macOS, where fsync alone does not reach the disk
            fcntl.fcntl(fd, getattr(fcntl, "F_FULLFSYNC", 51))

    def fsync_directory(self, path: Path) -> None:
        """Return when names made or removed in the directory are on disk."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source``."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file; a missing file is no error."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory and its parents; existing directories are no error."""
        path.mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory; a missing or filled directory is left as it is."""
        try:
            path.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def list(self, path: Path) -> list[str]:
        """Return the sorted names in a directory; no names if it does not exist."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 (no Path for each of many names)
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or directory."""
        return path.exists()

    def kind(self, path: Path) -> EntryKind:
        """Return the kind of entry for which a path stands."""
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return EntryKind.MISSING
        except OSError as error:
            if error.errno == errno.ELOOP:
                return EntryKind.LOOP
            raise
        if stat.S_ISDIR(mode):
            return EntryKind.DIRECTORY
        return EntryKind.FILE if stat.S_ISREG(mode) else EntryKind.OTHER

    def size(self, fd: int) -> int:
        """Return the number of bytes of a file, holes included."""
        return os.fstat(fd).st_size

    def modified_at_ms(self, path: Path) -> int:
        """Return the time when the file was last written, in milliseconds."""
        return path.stat().st_mtime_ns // 1_000_000

    def modified_all(self, directory: Path, names: Sequence[str]) -> Sequence[int]:
        """Return the times when files below a directory changed, in ns since the epoch; −1 for a missing file."""
        found = []
        # Names are joined as text: to make a Path for each of 80 000 files takes longer than to look at the files.
        look, base = os.stat, f"{directory}{os.sep}"
        for name in names:
            try:
                found.append(look(base + name).st_mtime_ns)
            except (FileNotFoundError, NotADirectoryError):
                found.append(-1)
        return found

    def data_ranges(self, fd: int, start: int, end: int) -> Sequence[tuple[int, int]]:
        """Return the parts of [start, end) that are not holes; they may contain zeros."""
        ranges = []
        while start < end:
            try:
                data = os.lseek(fd, start, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole follows
                    break
                raise
            if data >= end:
                break
            start = min(os.lseek(fd, data, os.SEEK_HOLE), end)
            ranges.append((data, start))
        return ranges

    def lock(self, fd: int) -> bool:
        """Lock the file against other processes, Apache's broker included, until the file is closed.

        Return False if another process has locked the file.
        """
        try:
            # Java's FileChannel.tryLock(0, 1, false) is a POSIX record lock of byte 0 (upstream
            # DefaultMessageStore.start). Record locks do not conflict within a process, so flock is needed too.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def disk_space(self, path: Path) -> DiskSpace:
        """Return the space of the partition that holds ``path``."""
        figures = os.statvfs(path)
        # Blocks reserved for root count as used, as in upstream UtilAll.getDiskPartitionSpaceUsedPercent.
        used = figures.f_blocks - figures.f_bfree
        return DiskSpace((used + figures.f_bavail) * figures.f_frsize, figures.f_bavail * figures.f_frsize)

    def system_run(self) -> str:
        """Return a name for the time since the system was started; "" if the system does not tell.

        While the name stays, everything written is still there, synced or not.
        """
        return _boot_id()


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
