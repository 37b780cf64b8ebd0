"""The disk of files with keys and passwords: only their owner reads them, and each is replaced as a whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.telemetry.logs import EventLog

log = EventLog("access")


class PrivateDisk(ConfigDisk):
    """A disk whose new files only their owner reads: signatures are checked with the passwords in them."""

    _mode = 0o600

    def replace(self, path: Path, content: bytes, like: os.stat_result | None = None) -> os.stat_result:
        """Replace a file, or the file that a link of this name leads to, by content that is on disk; return its status.

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
        try:
            self.fsync_directory(target.parent)
        except OSError as error:  # the file has its new content, so the change is in force
            log.error("the name of a file of accounts is not on disk", file=target, reason=str(error))
        return status
