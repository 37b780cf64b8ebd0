"""The address at which others reach this machine: part of client ids and of message ids."""

from __future__ import annotations

import socket
from typing import Final

_SOMEWHERE: Final = ("192.0.2.1", 9)
"""An address reserved for documents (RFC 5737). Nothing is sent to this address; the system only chooses a route."""


def local_address() -> str:
    """Return the IPv4 address of the interface that leads outside; ``127.0.0.1`` if the machine has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
            address: str = probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return address
