"""The short way of the bytes between a master and a slave: into the socket at once, past the reactor.

Twisted keeps what is written until its reactor finds the socket writable. That is a turn later, after everything that
has arrived meanwhile was read, and takes three system calls more. A batch that senders wait for, and the report that it
is on the other disk, need no such turn: the kernel nearly always has room for them.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.tcp import Connection

MOST_AT_ONCE_BYTES = 128 * 1024
"""The longest bytes that take the short way; what is read from the log of a slave that is behind is longer."""


def write_at_once(transport: Any, data: bytes) -> None:
    """Write to a connection: into its socket, unless earlier bytes wait; what the kernel does not take, by the reactor.

    :param transport: the transport of the connection, which is a ``Link`` if the peer speaks TLS.
    """
    raw = getattr(transport, "raw", transport)
    if len(data) > MOST_AT_ONCE_BYTES or not isinstance(raw, Connection) or not is_free(raw):
        transport.write(data)
        return
    if raw is not transport:
        data = transport.seal(data)
    taken = raw.writeSomeData(data)
    if not isinstance(taken, int):
        taken = 0  # the connection is lost, which the reactor notices as well
    if taken < len(data):
        raw.write(data[taken:])


def is_free(raw: Any) -> bool:
    """Return whether a plain transport is connected and has nothing more to write."""
    return bool(raw.connected) and not (raw.disconnecting or raw.dataBuffer or raw._tempDataLen)
