"""The address of a broker as the route table keeps it: a text, or "the address at which you reached us".

A broker in the name server's own process may not know the address at which clients see it (containers, several
networks). Such a broker registers its port alone. Every client is then told the address at which the client reached the
name server.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gateway.settings import Address
from gateway.settings.addresses import is_loopback, parse_address


class AutoAddress(msgspec.Struct, frozen=True):
    """A port at the address at which the asking client reached this process."""

    port: int

    def __str__(self) -> str:
        return f"auto:{self.port}"


BrokerAddress: TypeAlias = str | AutoAddress
"""``host:port`` as the broker gave it, or an ``AutoAddress``."""


def as_seen(text: str) -> BrokerAddress:
    """Return the address of a broker that runs on this machine.

    A loopback address becomes an ``AutoAddress``, because clients reach such a broker where they reach the name server.
    Any other text is returned unchanged.
    """
    try:
        address = parse_address(text)
        near = is_loopback(address.host)
    except ValueError:  # a host name, or nothing that an address looks like
        return text
    return AutoAddress(address.port) if near else text


def seen_from(address: BrokerAddress, reached_at: str) -> str:
    """Return the address as a client gets it that reached the name server at the local address ``reached_at``."""
    if isinstance(address, AutoAddress):
        return str(Address(reached_at, address.port))
    return address
