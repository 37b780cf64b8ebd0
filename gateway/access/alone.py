"""One process at a time changes a file of accounts or of audit: several servers of a machine may have the same one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process changes a file, and keep others from it; to be used in a thread.

    The lock is a hidden file beside the file, or beside the file that a link of this name leads to. Only its owner can
    open the lock, so nobody else on the machine can hold it.

    :raises OSError: the lock cannot be made.
    """
    target = Path(os.path.realpath(path))
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(target.with_name(f".{target.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
