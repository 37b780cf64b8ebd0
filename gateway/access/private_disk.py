"""The disk of files with keys and passwords: only their owner reads them, and each is replaced as a whole."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from gateway.errors import GatewayError
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.telemetry.logs import EventLog

log = EventLog("access")


class NameNotOnDiskError(GatewayError):
    """A change of accounts that is in force, and that a power failure may take back: the file's name is not on disk."""


class PrivateDisk(ConfigDisk):
    """A disk whose new files only their owner reads: signatures are checked with the passwords in them."""

    _mode = 0o600

    def __init__(self) -> None:
        self._unsynced: set[Path] = set()

    def replace(self, path: Path, content: bytes, like: os.stat_result | None = None) -> os.stat_result:
        """Replace a file, or the file that a link of this name leads to, by content that is on disk; return its status.

        The change is in force then. ``sync_names`` brings the new name of the file to the disk.

        :param like: the status of a file whose mode and owner the new one gets.
        :raises OSError: the old content is still there.
        """
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".{target.name}.tmp")
        self.make_directory(target.parent)
        self.unlink(temporary)  # it may have been left with other permissions
        try:
            self.write(temporary, content)
            if like is not None:
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    os.chown(temporary, like.st_uid, like.st_gid)
                temporary.chmod(stat.S_IMODE(like.st_mode))
            status = temporary.stat()
            self.rename(temporary, target)
        except OSError:
            self.unlink(temporary)
            raise
        self._unsynced.add(target.parent)
        return status

    def sync_names(self) -> None:
        """Bring the names of all replaced files to the disk.

        :raises NameNotOnDiskError: a name is not on disk; the next call tries again.
        """
        for directory in list(self._unsynced):
            try:
                self.fsync_directory(directory)
            except OSError as error:
                raise NameNotOnDiskError(str(error)) from error
            self._unsynced.discard(directory)

    def try_names_again(self) -> None:
        """Bring the names of replaced files to the disk, if that has failed before."""
        if self._unsynced:
            with suppress(NameNotOnDiskError):
                self.sync_names()
                log.info("the names of files of accounts are on disk")
