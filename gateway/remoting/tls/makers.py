"""The way to both sides of TLS for connections that carry no requests: those between a master and its slaves.

The server of a process knows the side that accepts, its client the side that calls, each with its files and limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:  # the libraries of TLS are loaded with the first handshake
    from twisted.internet.interfaces import ITransport

    from gateway.remoting.tls.link import Encrypted, Link, Received

LinkMaker: TypeAlias = "Callable[[ITransport, Encrypted, Received], Link | None]"
"""A function that returns one side of an encrypted connection; None if this process speaks no TLS there."""


class LinkMakers(NamedTuple):
    """Both sides."""

    accept: LinkMaker
    """Makes the side of the port."""
    begin: LinkMaker
    """Makes the side of the caller."""


def no_link(transport: ITransport, channel: Encrypted, received: Received) -> None:
    """Return None: connections are plain here."""
    del transport, channel, received


NO_LINKS = LinkMakers(no_link, no_link)
"""The makers of a process that speaks no TLS."""
