"""Descriptors of this process: connections leave enough of them for the files of the store.

The system gives each new connection or file the lowest free number. So the number of a connection tells that at least
as many descriptors are in use.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITransport

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
"""The process, or the system, has as many open files as it may: it passes."""
MOST_RESERVED_SHARE = 2
"""Not more than one part of this many is kept free, where the system allows few open files."""


def open_files_limit() -> int | None:
    """Return how many descriptors this process may have; None where the system does not tell, or sets no limit."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def takes_reserve(transport: ITransport, reserved: int) -> bool:
    """Return whether a connection has one of the last descriptors, which are for files."""
    get_handle = getattr(transport, "getHandle", None)
    limit = open_files_limit()
    if get_handle is None or limit is None:
        return False
    return bool(get_handle().fileno() >= limit - min(reserved, limit // MOST_RESERVED_SHARE))
