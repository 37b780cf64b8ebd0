"""Errors of the store.

GatewayError
└── StoreError               the store cannot be opened; names the path and what to do
    ├── StoreInUse           another process has the directory
    ├── StoreNotAccessible   the operating system refused: permissions, not a directory, no space
    ├── ForeignFile          a file has a size or an offset that its place does not allow
    ├── LogDamaged           the commit log is damaged where it was durable
    ├── LogCutShort          the store was closed properly, and a part of its commit log has gone since then
    └── LogBeginsLate        the first files of the commit log are gone, and the gateway did not delete them
DiskFull                     a write found no space and was undone; later writes may succeed
NoDescriptor                 a file could not be opened; earlier writes of the batch are undone, later ones may succeed
WriteFailed                  a write or a sync failed for another reason; the store stops acknowledging
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from gateway.errors import GatewayError

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The error numbers of a write that found no space."""
NOT_OPENED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""The error numbers of a file that could not be opened: the error passes and loses nothing."""


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
    """Return what to do about a path that cannot be used; name the owner if the path belongs to another user."""
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
    """Return the number of the user who owns a path, or the first existing folder above the path.

    Return None if none exists.
    """
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
    """A record of the commit log is damaged and intact records follow it, or a durable record is gone."""

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
    """The store was closed properly, and its commit log is shorter now."""

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
    """A batch found no space; its written part is undone."""


class NoDescriptor(Exception):  # noqa: N818
    """The process or the system has too many open files; the written part of the batch is undone."""


class WriteFailed(Exception):  # noqa: N818
    """A batch may or may not be on disk: this process can promise nothing more."""
