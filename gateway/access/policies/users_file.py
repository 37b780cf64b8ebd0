"""The file of users on disk: read if it changed, and replaced as a whole. Only its owner reads it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

from gateway.access.alone import alone
from gateway.access.policies.access_file import AccessFileError, build_users, parse_users
from gateway.access.policies.users import Users
from gateway.access.private_disk import PrivateDisk
from gateway.errors import GatewayError
from gateway.telemetry.logs import EventLog

log = EventLog("access")

MAX_FILE_BYTES: Final = 67_108_864
"""The largest file of users that is read or written."""

Stamp = tuple[int, int, int, int, int]


class TooLargeError(GatewayError):
    """Users whose file no start would read."""


class Seen(NamedTuple):
    """The users as the file had them when it was looked at last.

    ``fault`` says why the file cannot be used since then, and is empty if it can. ``is_told`` is True if the fault is
    in the log.
    """

    users: Users
    stamp: Stamp | None = None
    fault: str = ""
    is_told: bool = False


class UsersFile:
    """The file; both methods block and may run in any thread, one at a time."""

    def __init__(self, path: Path, disk: PrivateDisk | None = None) -> None:
        self.path = path
        self.disk = PrivateDisk() if disk is None else disk

    def alone(self) -> AbstractContextManager[None]:
        """Keep other processes from changes between a read and a write.

        :raises OSError: there can be no lock.
        """
        self.disk.make_directory(Path(os.path.realpath(self.path)).parent)
        return alone(self.path)

    def read(self, before: Seen) -> Seen:
        """Return the users of the file if it changed; if it cannot be used, those that were there before."""
        stamp: Stamp | None = None
        try:
            stamp = _stamp(self.path.stat())
            if stamp == before.stamp and not before.fault:
                return before
            users = self._parsed(stamp)
            if before.users.has_administrator and not users.has_administrator:
                raise AccessFileError(1, "no enabled user of type Super is left, so nobody could make another")
        except FileNotFoundError:
            if before.stamp is not None:
                log.warning("the file of users is gone; the users stay", file=self.path)
            return Seen(before.users)
        except OSError as error:
            return self._unusable(before, stamp, error.strerror or str(error))
        except AccessFileError as error:
            return self._unusable(before, stamp, str(error))
        self._warn_of_readers(stamp)
        if before.stamp is not None:
            log.info("users read again", file=self.path, users=len(users))
        return Seen(users, stamp)

    def write(self, users: Users) -> Seen:
        """Replace the file, or the file that a link of this name leads to; ``disk.sync_names`` has to follow.

        :raises TooLargeError: the file would be too large to be read again; the old content is still there.
        :raises OSError: the old content is still there.
        """
        content = build_users(users)
        if len(content) > MAX_FILE_BYTES:
            raise TooLargeError(f"the file of users would have {len(content)} bytes, at most {MAX_FILE_BYTES} are read")
        return Seen(users, _stamp(self.disk.replace(self.path, content)))

    def _unusable(self, before: Seen, stamp: Stamp | None, reason: str) -> Seen:
        """Keep the users; the fault is told if it stayed, because nobody is in the middle of writing the file then."""
        fault = f"{self.path}: {reason}"
        stayed = (stamp, fault) == (before.stamp, before.fault)
        if stayed and not before.is_told:
            log.error("users changed and cannot be used; the earlier ones stay", fault=fault)
        return Seen(before.users, stamp, fault, stayed)

    def _parsed(self, stamp: Stamp) -> Users:
        if stamp[1] > MAX_FILE_BYTES:
            raise AccessFileError(1, f"the file is larger than {MAX_FILE_BYTES} bytes")
        return parse_users(self.disk.read(self.path))

    def _warn_of_readers(self, stamp: Stamp) -> None:
        mode, owner = stamp[3:]
        if mode & 0o077 or owner not in (0, os.geteuid()):
            log.warning(
                "others may read or change the file of users",
                file=self.path,
                mode=f"{mode & 0o777:o}",
                owner=owner,
                advice=f"give it mode 600 and the owner {os.geteuid()}",
            )


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid
