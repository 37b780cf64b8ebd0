"""A bounded set of open files: 80 000 consume queues are served with a few hundred descriptors.

If room is needed, the file used longest ago is let go. A descriptor is only ever lent: ``with file as fd`` counts a
use, and the thread that ends the last use closes a file that was let go. The lifetime of a variable says nothing here:
compiled code drops a local after its last use, which may be before the call that got its descriptor.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from threading import Lock

from gateway.store.disk.files import FileLayer
from gateway.telemetry.logs import EventLog

log = EventLog("store")


class OpenFile:
    """One descriptor, lent to any thread; closed after it was let go and its last use ended.

    A list counts the uses: to append to a list and to pop from it are indivisible, and take less time than a lock. The
    order matters: a use is added before ``_is_kept`` is read, and ``_is_kept`` is changed before the uses are read.

    :param fd: an open descriptor, owned by the object from now on.
    """

    __slots__ = ("_fd", "_files", "_is_kept", "_unclosed", "_uses")

    def __init__(self, files: FileLayer, fd: int) -> None:
        self._files = files
        self._fd = fd
        self._uses: list[None] = []
        self._unclosed = [fd]
        self._is_kept = True

    def lend_kept(self) -> OpenFile | None:
        """Count a use and return the file for a ``with`` statement, which ends the use; None if the file was let go."""
        self._uses.append(None)
        if self._is_kept:
            return self
        self.__exit__(None, None, None)
        return None

    def lend(self) -> OpenFile:
        """Do the work of ``lend_kept``, for an owner that has not let the file go."""
        self._uses.append(None)
        assert self._is_kept, "its owner let it go"
        return self

    def __enter__(self) -> int:
        """Return the descriptor, which is open until the end of the ``with`` statement."""
        return self._fd

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._uses.pop()
        if not self._is_kept:
            self._close_unused()

    def let_go(self) -> None:
        """Lend the file no more, and close it as soon as its last use ends."""
        self._is_kept = False
        self._close_unused()

    def _close_unused(self) -> None:
        """Close the descriptor if no use is left; if several threads try at once, one of them closes it."""
        if self._uses:
            return
        try:
            fd = self._unclosed.pop()
        except IndexError:
            return
        try:
            self._files.close(fd)
        except OSError as error:  # no written data is lost: a sync opens the file itself
            log.error("a file of the store could not be closed", fd=fd, error=str(error))

    def __del__(self) -> None:
        # Nobody uses the file any more: a user inside its ``with`` statement would keep this object alive.
        self._uses.clear()
        self._close_unused()


class OpenFiles:
    """Open files by key, at most ``limit`` of them besides the files in use; any thread may call."""

    def __init__(self, files: FileLayer, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._by_key: OrderedDict[Hashable, OpenFile] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._by_key)

    def lend(self, key: Hashable) -> OpenFile | None:
        """Return the file for a ``with`` statement if it is open; otherwise None."""
        file = self._by_key.get(key)
        lent = None if file is None else file.lend_kept()
        if lent is not None:
            try:
                self._by_key.move_to_end(key)
            except KeyError:
                return lent  # another thread has just let the file go
        return lent

    def open(self, key: Hashable, path: Path, *, create: bool = False) -> OpenFile:
        """Open and keep a file, lent for a ``with`` statement; let the oldest file go if there are too many."""
        file = OpenFile(self._files, self._files.open(path, create=create))
        lent = file.lend()
        gone = []
        with self._lock:
            before = self._by_key.get(key)
            if before is not None:  # another thread was quicker; a newly made file replaces the file that was known
                gone.append(before if create else file)
            if before is None or create:
                self._by_key[key] = file
            while len(self._by_key) > self._limit:
                gone.append(self._by_key.popitem(last=False)[1])
        for other in gone:  # outside the lock, because closing may take a while
            other.let_go()
        return lent

    def forget(self, key: Hashable) -> None:
        """Let a file go, for instance because it is deleted."""
        with self._lock:
            file = self._by_key.pop(key, None)
        if file is not None:
            file.let_go()

    def clear(self) -> None:
        """Let all files go."""
        with self._lock:
            files = list(self._by_key.values())
            self._by_key.clear()
        for file in files:
            file.let_go()
