"""Ports for servers that are to be found again at the same ones after a crash."""

from __future__ import annotations

import errno
import random
import socket

CHOICE = range(12_000, 32_000)
"""Below those that Linux (from 32,768 on), macOS and Windows (from 49,152 on) give to outgoing connections: any
connection of this machine may take one of those while its server is down, and the server then cannot start again."""
TRIES = 1_000


def free_port() -> int:
    """A port P that nothing uses at this moment, nor P - 2, on which a broker listens as well (the VIP channel).

    :raises OSError: ``EADDRINUSE``, when 1,000 in a row were in use.
    """
    for port in random.choices(CHOICE, k=TRIES):  # noqa: S311 - not a secret
        if _is_free(port) and _is_free(port - 2):
            return port
    raise OSError(errno.EADDRINUSE, f"none of {TRIES} ports between {CHOICE.start} and {CHOICE.stop} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
