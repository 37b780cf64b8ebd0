"""Errors of the store.

GatewayError
└── StoreError               the store cannot be opened; names the path and what to do
├── StoreInUse           another process has the directory
├── StoreNotAccessible   the operating system refused: permissions, not a directory, no space
├── ForeignFile          a file has a size, or stands at an offset, that its place does not allow
├── LogDamaged           the commit log is damaged where it was durable
├── LogCutShort          the store was closed properly, and a part of its commit log is gone since
└── LogBeginsLate        the first files of the commit log are gone, and the gateway did not delete them
DiskFull                     a write found no space and was undone; later writes may succeed
NoDescriptor                 a file could not be opened; what was written before is undone, later writes may succeed
WriteFailed                  a write or a sync failed otherwise; the store stops acknowledging
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from gateway.errors import GatewayError

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A write found no room."""
NOT_OPENED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""A file could not be opened, and nothing was tried yet: it passes and loses nothing."""


class StoreError(GatewayError):
    """The store cannot be opened."""


class StoreInUse(StoreError):  # noqa: N818 (a fact about the directory, not a failure of ours)
    """Another process serves the directory."""

    def __init__(self, directory: Path, holder: str) -> None:
        super().__init__(
            f"store directory {directory} is in use by another process{holder}; "
            "stop that process or choose another directory"
        )
        self.directory = directory


class StoreNotAccessible(StoreError):  # noqa: N818
    """The operating system does not let us use the directory."""

    def __init__(self, directory: Path, error: OSError) -> None:
        where = error.filename if error.filename is not None else directory
        remedy = (
            "make room on that disk and start again"
            if error.errno in NO_SPACE
            else _advice(directory, Path(where), error)
        )
        super().__init__(f"store directory {directory} cannot be used: {error.strerror} ({where}); {remedy}")
        self.directory = directory


def _advice(directory: Path, where: Path, error: OSError) -> str:
    """What to do about a path that cannot be used; names the owner if that is another user."""
    user, group = os.geteuid(), os.getegid()
    owner = _owner(where)
    if error.errno not in (errno.EACCES, errno.EPERM) or owner in (None, user):
        return "check that the path is a directory this user may write to"
    return (
        f"it belongs to user {owner}, and this process runs as user {user}: run 'chown -R {user}:{group} {directory}' "
        "as root (for the volume of a container: docker run --user 0 --entrypoint chown …), "
        f"or start the process as user {owner}"
    )


def _owner(path: Path) -> int | None:
    """The number of the user who owns a path, or the first folder above it that exists."""
    for place in (path, *path.parents):
        try:
            return place.stat().st_uid
        except OSError:
            continue
    return None


class ForeignFile(StoreError):  # noqa: N818
    """A file does not fit its place."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"{path} {reason}; {remedy}")
        self.path = path


class LogDamaged(StoreError):  # noqa: N818
    """A record of the commit log is damaged and intact records follow it, or it was durable and is gone."""

    def __init__(
        self, path: Path, position: int, commit_log_offset: int, reason: str, follows: str, directory: Path
    ) -> None:
        super().__init__(
            f"commit log file {path} is damaged at byte {position} (commit log offset {commit_log_offset}): "
            f"{reason}; {follows}. Nothing was changed. Restore the file from a copy, or run "
            f"'rocketmq-gateway store repair {directory}', which shows what it would do before it does it"
        )
        self.path = path
        self.position = position
        self.commit_log_offset = commit_log_offset


class LogCutShort(StoreError):  # noqa: N818
    """The store was closed properly with more in its commit log than there is now."""

    def __init__(self, path: Path, end: int, durable: int, directory: Path) -> None:
        super().__init__(
            f"commit log file {path} was cut short since the store was closed: the log ends at offset {end}, but "
            f"{durable} bytes were on disk, {durable - end} bytes of acknowledged messages are gone. Nothing was "
            f"changed. Restore the file from a copy, or accept the loss with "
            f"'rocketmq-gateway store repair {directory} --apply'"
        )
        self.path = path
        self.commit_log_offset = end
        self.lost_bytes = durable - end


class LogBeginsLate(StoreError):  # noqa: N818
    """The first files of the commit log are gone."""

    def __init__(self, path: Path, begin: int, expected: int, directory: Path) -> None:
        super().__init__(
            f"commit log file {path} is missing: the log begins at offset {begin}, but only what lies below {expected} "
            f"was deleted as expired; {begin - expected} bytes of messages are gone. Nothing was changed. Restore the "
            f"file from a copy, or accept the loss with 'rocketmq-gateway store repair {directory} --apply'"
        )
        self.path = path
        self.commit_log_offset = begin
        self.lost_bytes = begin - expected


class DiskFull(Exception):  # noqa: N818
    """No space for a batch; the part of it that was written is undone."""


class NoDescriptor(Exception):  # noqa: N818
    """The process or the system has too many open files; the part of the batch that was written is undone."""


class WriteFailed(Exception):  # noqa: N818
    """A batch may or may not be on disk: nothing more can be promised by this process."""
