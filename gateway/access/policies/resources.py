"""The resources that policies name, and the source addresses for which an entry of a policy applies."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

ANY = "*"
KINDS = {kind.lower(): kind for kind in ("Topic", "Group", "Cluster", "Namespace")}
"""The kinds of resources by their names in small letters; no request needs a ``Namespace``."""
MAX_NAME = 255
"""The most characters of a resource's or user's name."""
CACHED = 4_096
"""The number of addresses and networks that are kept after they were read."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Networks = tuple[tuple[int, int, frozenset[int]], ...]
"""Networks in groups of IP version, number of host bits, and network addresses without the host bits."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Pattern(Enum):
    """The ways in which the name of a resource is compared with a request's."""

    LITERAL = "the name itself"
    PREFIXED = "every name that begins so"
    ANY = "every name"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of an entry.

    :param kind: a word of ``KINDS``; empty: any kind.
    """

    kind: str
    pattern: Pattern
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Resource | None:
        """Return the resource that a text names; None if the text names none.

        If a name ends in a star, only the characters before its first star count, as in upstream's ``Resource.of``.
        """
        if text == ANY:
            return ANYTHING
        word, colon, name = text.partition(":")
        kind = KINDS.get(word.lower())
        if kind is None or not colon or not name or not is_name(name):
            return None
        if name == ANY:
            return cls(kind, Pattern.ANY)
        if name.endswith(ANY):
            prefix = name.partition(ANY)[0]
            return cls(kind, Pattern.PREFIXED, prefix) if prefix else cls(kind, Pattern.ANY)
        return cls(kind, Pattern.LITERAL, name)

    def __str__(self) -> str:
        if not self.kind:
            return ANY
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else ANY}"


ANYTHING = Resource("", Pattern.ANY)
"""The resource ``*``: everything of every kind."""


def is_name(text: str) -> bool:
    """Return whether a text can be a name: not blank, not too long, and every character can be seen."""
    return bool(text.strip()) and len(text) <= MAX_NAME and text.isprintable()


@lru_cache(CACHED)
def network_of(text: str) -> Network | None:
    """Return the addresses that a text allows: an IP address or a network as CIDR. None: the text is neither."""
    if "%" in text:  # a zone is of one machine
        return None
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < 96:
        return network
    return ipaddress.ip_network((mapped, network.prefixlen - 96), strict=False)


def networks_of(texts: tuple[str, ...]) -> Networks:
    """Return the networks of texts, grouped so that an address is found by one look-up for each size of network."""
    found: dict[tuple[int, int], set[int]] = {}
    for network in map(network_of, texts):
        if network is not None:
            bits = network.max_prefixlen - network.prefixlen
            found.setdefault((network.version, bits), set()).add(int(network.network_address) >> bits)
    return tuple((version, bits, frozenset(begins)) for (version, bits), begins in found.items())


@lru_cache(CACHED)
def address_of(host: str) -> Address | None:
    """Return the address of a peer, None if the text is no address. An IPv4 address within IPv6 counts as IPv4."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
