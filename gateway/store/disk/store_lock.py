"""The lock of a store directory and the mark that it is open.

The file ``lock`` keeps two brokers apart, Apache RocketMQ's included. The file ``abort`` exists from opening to a
proper closing, so that the next start knows whether it has to recover.
"""

from __future__ import annotations

import os

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.disk.small_files import write_file
from gateway.store.errors import StoreInUse

LOCK_TEXT = b"lock"


class StoreLock:
    """The lock that is held while the store is open."""

    def __init__(self, files: FileLayer, paths: StorePaths) -> None:
        self._files = files
        self._paths = paths
        self._fd = -1

    @property
    def is_held(self) -> bool:
        """True if this process has the directory."""
        return self._fd >= 0

    def take(self) -> None:
        """Lock the directory.

        :raises StoreInUse: another process has the directory.
        """
        self._fd = self._files.open(self._paths.lock, create=True)
        if not self._files.lock(self._fd):
            holder = self._files.pread(self._fd, 64, len(LOCK_TEXT)).decode("ascii", "replace").strip()
            self.release()
            raise StoreInUse(self._paths.root, f" ({holder})" if holder else "")
        text = LOCK_TEXT + f" pid {os.getpid()}".encode()
        self._files.truncate(self._fd, 0)
        self._files.pwrite(self._fd, text, 0)

    def release(self) -> None:
        """Give the directory back."""
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1

    def mark_open(self) -> None:
        """Mark durably that the store is open."""
        write_file(self._files, self._paths.abort, str(os.getpid()).encode())
        self._files.fsync_directory(self._paths.root)

    def mark_closed(self) -> None:
        """Remove the mark because everything is on disk: the next start has nothing to recover."""
        self._files.unlink(self._paths.abort)
        self._files.fsync_directory(self._paths.root)
