"""Ports for servers that must have the same ports again after a crash."""

from __future__ import annotations

import errno
import random
import socket

CHOICE = range(12_000, 32_000)
"""The ports to choose from, below the ports that systems give to outgoing connections.

Linux gives them from 32,768 on, macOS and Windows from 49,152 on. Any connection of this machine may take such a port
while its server is down, and the server then cannot start again.
"""
TRIES = 1_000
_given: set[int] = set()
"""The ports of earlier calls in this process: a server may be about to listen on one that nothing uses yet."""


def free_port() -> int:
    """Return a port P that nothing uses now; P - 2, on which a broker listens as well (the VIP channel), is also free.

    Two calls in one process never return ports of which a broker would need both.

    :raises OSError: ``EADDRINUSE``, when 1,000 random ports were in use.
    """
    for port in random.choices(CHOICE, k=TRIES):  # noqa: S311 - not a secret
        if _given.isdisjoint((port - 2, port, port + 2)) and _is_free(port) and _is_free(port - 2):
            _given.add(port)
            return port
    raise OSError(errno.EADDRINUSE, f"none of {TRIES} ports between {CHOICE.start} and {CHOICE.stop} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
