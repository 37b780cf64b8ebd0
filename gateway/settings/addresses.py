"""Addresses in settings: ``host:port``, lists of addresses, and the address that we advertise.

Only the text is checked; no name is resolved here. IPv6 addresses with a port are in brackets.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")
"""The pattern of a host name. Underscores are allowed: no standard has them, but container networks do."""

LOCAL_HOST = "localhost"
ADVERTISE_AUTO = "auto"
"""The value that advertises to every client the address at which the client reached us."""


class Address(NamedTuple):
    """A host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Advertised(NamedTuple):
    """The address of the broker in routes.

    ``host`` None means the address at which the asking client reached us, ``port`` None the port on which we listen.
    """

    host: str | None
    port: int | None


def parse_address(text: str) -> Address:
    """Read ``host:port`` or ``[v6]:port``.

    :raises ValueError: the text is not an address.
    """
    host, port = _split(text.strip())
    if port is None:
        raise ValueError("HOST:PORT")
    return Address(host, port)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return addresses separated by ``;`` (or ``,``), in order; none for an empty text.

    :raises ValueError: a part is not an address.
    """
    parts = [part.strip() for part in text.replace(",", ";").split(";")]
    return tuple(parse_address(part) for part in parts if part)


def parse_advertised(text: str) -> Advertised:
    """Read ``auto``, ``host`` or ``host:port``.

    :raises ValueError: the text is none of these.
    """
    text = text.strip()
    if text.lower() == ADVERTISE_AUTO:
        return Advertised(None, None)
    return Advertised(*_split(text))


def advertised_expected(text: str) -> str | None:
    """Return what ``gateway.advertise`` expects if ``text`` is wrong, otherwise None."""
    try:
        parse_advertised(text)
    except ValueError:
        return "auto, HOST or HOST:PORT"
    return None


def parse_networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Return addresses and networks (``10.0.0.0/8``) separated by commas; none for an empty text.

    :raises ValueError: a part is neither.
    """
    return tuple(ipaddress.ip_network(name, strict=False) for part in text.split(",") if (name := part.strip()))


def networks_expected(text: str) -> str | None:
    """Return what a list of networks expects if ``text`` is wrong, otherwise None."""
    try:
        parse_networks(text)
    except ValueError:
        return "IP addresses or networks (10.0.0.0/8), separated by commas"
    return None


def addresses_expected(text: str) -> str | None:
    """Return what a list of addresses expects if ``text`` is wrong, otherwise None."""
    try:
        parse_addresses(text)
    except ValueError:
        return "HOST:PORT, several separated by ';'"
    return None


def interface_expected(text: str) -> str | None:
    """Return what ``bindAddress`` expects if ``text`` is wrong, otherwise None."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return "an IP address of this machine, 0.0.0.0 or ::"
    return None


def host_expected(text: str) -> str | None:
    """Return what ``brokerIP1`` expects if ``text`` is wrong, otherwise None."""
    try:
        if text and _split(text)[1] is not None:
            raise ValueError(text)
    except ValueError:
        return "a host name or IP address without a port"
    return None


def is_loopback(interface: str) -> bool:
    """Return whether only this machine reaches a listener on ``interface``."""
    return ipaddress.ip_address(interface).is_loopback


def listens_for(interface: str, host: str) -> bool:
    """Return whether a listener on ``interface`` can be reached at ``host``, judged by the texts alone.

    If ``interface`` is every network, an address of its family may belong to this machine. A name may stand for any
    address except a loopback one; ``localhost`` stands for a loopback address only.
    """
    bound = ipaddress.ip_address(interface)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        is_local = host.rstrip(".").lower() == LOCAL_HOST
        return bound.is_unspecified or is_local == bound.is_loopback
    if bound.is_unspecified:
        return bound.version >= address.version  # a listener on :: takes IPv4 as well
    return address == bound


def reachable(interface: str) -> str:
    """Return the address at which this machine reaches a listener on ``interface``, which may be every network."""
    address = ipaddress.ip_address(interface)
    if not address.is_unspecified:
        return interface
    return "127.0.0.1" if address.version == 4 else "::1"


def _split(text: str) -> tuple[str, int | None]:
    """Return host and port; the port is None if the text has none.

    :raises ValueError: the host or the port is wrong.
    """
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise ValueError(text)
        ipaddress.IPv6Address(host)
        return host, _port(rest[1:]) if rest else None
    if text.count(":") > 1:
        ipaddress.IPv6Address(text)
        return text, None
    host, colon, port = text.partition(":")
    if not _HOST_NAME.fullmatch(host):
        raise ValueError(text)
    if host.replace(".", "").isdigit():
        ipaddress.IPv4Address(host)
    return host, _port(port) if colon else None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 65_536:
        raise ValueError(text)
    return int(text)
