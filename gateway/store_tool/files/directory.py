"""The files of a store directory as they are, and the lock that keeps servers out during the work.

Opening changes nothing. A reader takes a shared lock on the file ``lock``, which the exclusive locks of both the
gateway and Apache RocketMQ respect. A writer takes the store's own lock. This module does not judge the files: a file
with a wrong size is listed like any other, and the checks report it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.settings.store import StoreSettings
from gateway.store.disk.entry_kinds import Misfit, misfits
from gateway.store.disk.files import EntryKind, FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.disk.paths import StorePaths, is_index_name, is_queue_name, is_topic_name, parse_offset_name
from gateway.store.log.log_scan import LogWindow
from gateway.store_tool.errors import CannotRun, DirectoryInUse, not_accessible
from wire.disk.consume_queue import UNIT_BYTES
from wire.errors import RecordError
from wire.message.record import StoredMessage, parse_record

_SIGNS = ("commitlog", "consumequeue", "checkpoint", "config", "index", "gateway-queues")
"""The names that show a store: a directory with any of them is a store."""
_MAX_DEPTH = 4
"""The number of names in the path of the deepest file: consumequeue/TOPIC/QUEUE/FILE."""
_LARGEST_BYTES = (1 << 31) - 1
"""The largest size that the settings allow for a file of the log or of a queue.

A larger file does not show the size of the other files.
"""
_MAX_OFFSET = (1 << 63) - 1
_BUSY = frozenset({errno.EAGAIN, errno.EACCES})
_NO_DIRECTORY = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_FLOCK = struct.Struct("hhqqi")  # struct flock of 64-bit Linux


@dataclass(frozen=True, slots=True)
class DiskFile:
    """One file: the offset in its name, and its size with and without holes."""

    path: Path
    start: int
    size: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class QueueFolder:
    """The consume queue files of one queue, in order."""

    topic: str
    queue_id: int
    files: tuple[DiskFile, ...]


class StoreDirectory:
    """The content of a store directory. Most files have ``log_file_bytes`` or ``queue_file_bytes``."""

    def __init__(self, root: Path, settings: StoreSettings) -> None:
        self.paths = StorePaths(root, settings.commit_log_below(root))
        named = _offset_files(self.paths.commit_log)
        self.log_files = [file for file in named if file.start <= _MAX_OFFSET]
        self.misfits = misfits(FileLayer(), root)
        """Entries that no server takes: of a wrong kind, or with a number in their name that is no offset of a log."""
        named += _offset_files(root / "timerlog")
        too_large = f"has a number in its name that is larger than {_MAX_OFFSET}, the last offset of a log"
        self.misfits += [Misfit(file.path, too_large) for file in named if file.start > _MAX_OFFSET]
        self.log_file_bytes = _common_size(self.log_files, settings.mapped_file_size_commit_log)
        self.queues = _queue_folders(self.paths.consume_queue)
        extensions = _queue_folders(self.paths.consume_queue_extension)
        self.extension_files = [file for folder in extensions.values() for file in folder.files]
        self.queue_file_bytes = _common_size(
            [file for queue in self.queues.values() for file in queue.files], settings.consume_queue_file_bytes
        )
        self.settings = replace(
            settings,
            mapped_file_size_commit_log=self.log_file_bytes,
            mapped_file_size_consume_queue=self.queue_file_bytes,
        )
        self.index_files = [
            disk_file(path, int(path.name)) if path.exists() else DiskFile(path, int(path.name), 0, 0)  # a link
            for path in _listed(self.paths.index)
            if is_index_name(path.name)
        ]
        self.killed = self.paths.abort.exists()

    @property
    def root(self) -> Path:
        """The directory."""
        return self.paths.root

    @property
    def log_min(self) -> int:
        """The first offset that the log still has; 0 without files."""
        return self.log_files[0].start if self.log_files else 0

    def log_file_at(self, commit_log_offset: int) -> DiskFile | None:
        """Return the file that covers an offset of the log; None if no file does."""
        for file in self.log_files:
            if file.start <= commit_log_offset < file.start + file.size:
                return file
        return None


@contextmanager
def opened(root: Path, settings: StoreSettings, *, write: bool = False, live: bool = False) -> Iterator[StoreDirectory]:
    """Open the directory, and keep servers out until the end.

    :param write: keep other readers out as well; the directory must be writable.
    :param live: look even if a server has the directory open; figures may then be of slightly different moments.
    :raises CannotRun: the directory is not a store, not accessible, or in use.
    """
    _check_is_store(root, settings)
    try:
        fd = -1 if live else _lock(StorePaths(root), write=write)
    except OSError as error:
        raise not_accessible(root, error) from error
    try:
        yield StoreDirectory(root, settings)
    except BrokenPipeError:
        raise  # who reads the output has gone; nothing is wrong with the directory
    except OSError as error:
        raise not_accessible(root, error) from error
    finally:
        if fd >= 0:
            os.close(fd)


def holder_of(root: Path) -> str | None:
    """Return who has the directory open, as text for people; None if nobody has."""
    path = StorePaths(root).lock
    if FileLayer().kind(path) is not EntryKind.FILE:
        return None
    try:
        fd = open_to_read(path)
    except FileNotFoundError:
        return None
    try:
        return None if _try_shared(fd) else _holder(fd)
    finally:
        os.close(fd)


# --- is it a store ---------------------------------------------------------------------------------------------------


def _check_is_store(root: Path, settings: StoreSettings) -> None:
    try:
        if not root.exists():
            raise CannotRun(f"{root} does not exist; give the directory that storePathRootDir (--data) names")
        if not root.is_dir():
            raise CannotRun(f"{root} is not a directory but a file; {_directory_of(root)}")
        names = {entry.name for entry in root.iterdir()}
    except OSError as error:
        raise not_accessible(root, error) from error
    if names.intersection(_SIGNS) or settings.commit_log_below(root).is_dir():
        return
    raise CannotRun(f"{root} is not a store directory: {_why_not(root, names)}")


def _directory_of(file: Path) -> str:
    """Return what to give instead of a file: the store that the file belongs to, if there is one near."""
    for parent in list(file.resolve().parents)[:_MAX_DEPTH]:
        if (parent / "commitlog").is_dir():
            return f"it belongs to the store {parent}; give that"
    return "give the directory that storePathRootDir (--data) names"


def _why_not(root: Path, names: set[str]) -> str:
    if not names:
        return "it is empty; a server that starts on it will make one"
    if any(parse_offset_name(name) is not None for name in names):
        return f"it holds the files of one part of a store; give the directory above it, {root.resolve().parent}"
    for name in sorted(names):
        if name in ("store", "data") and (root / name / "commitlog").is_dir():
            return f"there is one in it; give {root / name}"
    return "it holds no commitlog, consumequeue, config or checkpoint; give what storePathRootDir (--data) names"


# --- locks -----------------------------------------------------------------------------------------------------------


def _lock(paths: StorePaths, *, write: bool) -> int:
    """Return a descriptor whose lock keeps others out; −1 if there is no lock file and nothing will be written.

    Also −1 if the name of the lock file belongs to something other than a file. Every server then fails to start, and
    the checks report the entry.
    """
    if FileLayer().kind(paths.lock) not in (EntryKind.FILE, EntryKind.MISSING):
        return -1
    try:
        fd = FileLayer().open(paths.lock, create=True) if write else open_to_read(paths.lock)
    except FileNotFoundError:
        return -1
    if not (FileLayer().lock(fd) if write else _try_shared(fd)):
        holder = _holder(fd)
        os.close(fd)
        raise DirectoryInUse(paths.root, holder)
    return fd


def _try_shared(fd: int) -> bool:
    try:
        # As FileLayer.lock: Java holds a POSIX record lock of byte 0, the gateway that and a flock.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def _holder(fd: int) -> str:
    pid = _locking_pid(fd) or _written_pid(fd)
    if not pid:
        return "another process"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"process {pid}"
    command = " ".join(word for word in words if word)
    return f"process {pid} ({command[:77] + '…' if len(command) > 78 else command})" if command else f"process {pid}"


def _locking_pid(fd: int) -> int:
    """Return the process that holds the record lock of byte 0.

    0 if the process cannot be found, because it runs in another container or on another system.
    """
    if sys.platform != "linux":
        return 0
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return int(pid) if kind != fcntl.F_UNLCK and pid > 0 else 0


def _written_pid(fd: int) -> int:
    """Return the process id that the gateway wrote into its lock file as ``lock pid 123``; 0 without one."""
    word = os.pread(fd, 64, 0).decode("ascii", "replace").rpartition(" ")[2]
    return int(word) if word.isdecimal() else 0


# --- files -----------------------------------------------------------------------------------------------------------


def open_to_read(path: Path) -> int:
    """Open a file for reading, without waiting for an entry that is not a file.

    :raises OSError: there is no such file, or the name belongs to a pipe, a socket or a device.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no file", str(path))


class ReadOnlyFiles(FileLayer):
    """The operating system's files, never changed.

    Content that ``CheckpointFile.load`` would correct stays as it is.
    """

    def open(self, path: Path, *, create: bool = False) -> int:  # noqa: ARG002 (as every file layer)
        """Open a file for reading. No file is made."""
        return open_to_read(path)

    def truncate(self, fd: int, size: int) -> None:
        """Do nothing."""


def log_part(path: Path, start: int, size: int) -> MappedFileQueue:
    """Return one commit log file as a log of its own, so that a walk can read it alone.

    :param start: the commit log offset of the file's first byte.
    :param size: how many bytes of the file are looked at.
    """
    part = MappedFileQueue(ReadOnlyFiles(), path.parent, size)
    part.list = [MappedFile(ReadOnlyFiles(), path, start, size)]
    return part


def record_at(path: Path, position: int, *, check_crc: bool) -> StoredMessage | None:
    """Return the message whose record starts at a byte of a log file, however large; None if there is none."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    if position >= size:
        return None
    try:
        data, at = LogWindow(MappedFile(ReadOnlyFiles(), path, 0, size)).record(position)
        return parse_record(data, at, check_crc=check_crc)
    except RecordError:
        return None


def read_part(path: Path, position: int, size: int) -> bytes:
    """Return bytes of a file; fewer at the end of the file.

    :raises OSError: the file cannot be read, or the name belongs to something other than a file.
    """
    fd = open_to_read(path)
    try:
        return os.pread(fd, size, position)
    finally:
        os.close(fd)


def disk_file(path: Path, start: int) -> DiskFile:
    """Return the figures of one file."""
    status = path.stat()
    return DiskFile(path, start, status.st_size, status.st_blocks * 512)


def _listed(directory: Path) -> list[Path]:
    """Return what is in a directory; nothing if it is none."""
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        if error.errno in _NO_DIRECTORY:
            return []
        raise


def links_in(directory: Path) -> list[Path]:
    """Return the symbolic links among topics and queues. Servers and this tool follow such links."""
    topics = _listed(directory)
    return [path for path in (*topics, *(queue for topic in topics for queue in _listed(topic))) if path.is_symlink()]


def _offset_files(directory: Path) -> list[DiskFile]:
    found = []
    for path in _listed(directory):
        start = parse_offset_name(path.name)
        if start is not None and path.is_file():
            found.append(disk_file(path, start))
    return found


def _queue_folders(directory: Path) -> dict[tuple[str, int], QueueFolder]:
    found = {}
    for topic in _listed(directory):
        for queue in _listed(topic) if is_topic_name(topic.name) else ():
            if is_queue_name(queue.name) and queue.is_dir():
                name = (topic.name, int(queue.name))
                found[name] = QueueFolder(*name, tuple(_offset_files(queue)))
    return found


def _common_size(files: list[DiskFile], configured: int) -> int:
    """Return the size that most files have, as a server finds it.

    The configured size is returned if there are no files, or if any file has the configured size.
    """
    sizes = Counter(file.size for file in files if 0 < file.size <= _LARGEST_BYTES)
    if not sizes or configured in sizes:
        return configured
    size = sizes.most_common(1)[0][0]
    return size if size >= UNIT_BYTES else configured


def data_end(path: Path, size: int) -> int:
    """Return the position after the last byte of a file that is not zero; 0 for a file of zeros."""
    return MappedFile(ReadOnlyFiles(), path, 0, size).data_end(0)
