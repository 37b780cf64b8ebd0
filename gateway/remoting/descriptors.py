"""The descriptors of this process: connections leave enough of them for the files of the store.

The system gives each new connection or file the lowest free number. So a connection's number shows that at least as
many descriptors are in use.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITransport

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
"""The errors that say that the process, or the system, has too many open files; the state passes."""
MOST_RESERVED_SHARE = 2
"""The divisor of the open-file limit: no more than this share is kept free, where the system allows few open files."""


def open_files_limit() -> int | None:
    """Return how many descriptors this process may have; None if the system does not tell, or sets no limit."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def takes_reserve(transport: ITransport, reserved: int) -> bool:
    """Return whether a connection uses one of the last descriptors, which are reserved for files."""
    get_handle = getattr(transport, "getHandle", None)
    limit = open_files_limit()
    if get_handle is None or limit is None:
        return False
    return bool(get_handle().fileno() >= limit - min(reserved, limit // MOST_RESERVED_SHARE))
