"""The address by which this machine is reached: part of client ids and of message ids."""

from __future__ import annotations

import socket
from typing import Final

_SOMEWHERE: Final = ("192.0.2.1", 9)
"""An address reserved for documents (RFC 5737): nothing is sent there, it only makes the system choose a route."""


def local_address() -> str:
    """The IPv4 address of the interface that leads outside; ``127.0.0.1`` on a machine without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
            address: str = probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return address
