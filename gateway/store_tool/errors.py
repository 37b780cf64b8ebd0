"""The reasons why a command about a store cannot run: exit code 2, and nothing was changed."""

from __future__ import annotations

import errno
from pathlib import Path

from gateway.errors import GatewayError

CANNOT_RUN = 2


class CannotRun(GatewayError):  # noqa: N818 (a fact about what was asked, as in gateway.store.errors)
    """A command that cannot do what was asked. The text says why and what to do."""

    exit_code = CANNOT_RUN


class DirectoryInUse(CannotRun):
    """A directory that a server, or another command that writes, has open."""

    def __init__(self, directory: Path, holder: str) -> None:
        super().__init__(f"store directory {directory} is in use by {holder}; stop it first, or work on a copy")
        self.directory = directory


def not_accessible(directory: Path, error: OSError) -> CannotRun:
    """Make the error for a refusal by the operating system."""
    where = error.filename if error.filename is not None else directory
    remedy = (
        "make room on that disk and run the command again"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "run the command as a user who may read it, or correct the path"
    )
    return CannotRun(f"store directory {directory} cannot be used: {error.strerror or error} ({where}); {remedy}")
