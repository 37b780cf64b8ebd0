"""The address of a broker as the route table keeps it: a text, or "wherever you reached us".

A broker in the name server's own process may not know under which address its clients see it (containers,
several networks). It then registers its port alone, and every client is told the address through which it
reached the name server.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gateway.settings import Address
from gateway.settings.addresses import is_loopback, parse_address


class AutoAddress(msgspec.Struct, frozen=True):
    """Port ``port`` of whatever address the asking client has reached us at."""

    port: int

    def __str__(self) -> str:
        return f"auto:{self.port}"


BrokerAddress: TypeAlias = str | AutoAddress
"""``host:port`` as the broker gave it, or an AutoAddress."""


def as_seen(text: str) -> BrokerAddress:
    """The address of a broker of this machine: one that names the machine's loopback is wherever clients reach us."""
    try:
        address = parse_address(text)
        near = is_loopback(address.host)
    except ValueError:  # a host name, or nothing that an address looks like
        return text
    return AutoAddress(address.port) if near else text


def seen_from(address: BrokerAddress, reached_at: str) -> str:
    """The text a client is given that reached the name server at the local address ``reached_at``."""
    if isinstance(address, AutoAddress):
        return str(Address(reached_at, address.port))
    return address
