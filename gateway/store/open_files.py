"""A bounded set of open files: 80 000 consume queues are served with a few hundred descriptors.

The file used longest ago is given back when room is needed. Whoever still holds an ``OpenFile`` keeps its descriptor:
it is closed with the last reference, in whichever thread that is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from threading import Lock

from gateway.store.files import FileLayer


class OpenFile:
    """An open descriptor that closes itself."""

    __slots__ = ("_files", "fd")

    def __init__(self, files: FileLayer, fd: int) -> None:
        self._files = files
        self.fd = fd

    def __del__(self) -> None:
        self._files.close(self.fd)


class OpenFiles:
    """Open files by key, at most ``limit`` of them; any thread may ask."""

    __slots__ = ("_by_key", "_files", "_limit", "_lock")

    def __init__(self, files: FileLayer, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._by_key: OrderedDict[Hashable, OpenFile] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: Hashable) -> OpenFile | None:
        """The file when it is open."""
        file = self._by_key.get(key)
        if file is not None:
            try:
                self._by_key.move_to_end(key)
            except KeyError:
                return file  # another thread has just let it go
        return file

    def open(self, key: Hashable, path: Path, *, create: bool = False) -> OpenFile:
        """Open and keep a file, and let the oldest go when there are too many."""
        file = OpenFile(self._files, self._files.open(path, create=create))
        with self._lock:
            self._by_key[key] = file
            while len(self._by_key) > self._limit:
                self._by_key.popitem(last=False)
        return file

    def forget(self, key: Hashable) -> None:
        """Let a file go, for instance because it is deleted."""
        with self._lock:
            self._by_key.pop(key, None)

    def clear(self) -> None:
        """Let all files go."""
        with self._lock:
            self._by_key.clear()
