"""Shares of a limited total: no holder gets all of it.

A holder is a connection, a group or a host. One holder gets at most three quarters of the total, or less if its own
limit says so. The last tenth of the total is for holders that have little, at most a thousandth of the total. So a new
holder still gets enough to work after greedy holders have taken their part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable
from ipaddress import IPv6Address, IPv6Network
from typing import Final, Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)
Held = TypeVar("Held")

_IPV6_PREFIX: Final = 64


class Shares(Generic[Holder]):
    """Counts how much each holder has of a limited total.

    :param total: the most that all holders may have, in any unit.
    :param share: the most that one holder may have; None for three quarters of the total.
    """

    def __init__(self, total: int, share: int | None = None) -> None:
        self.used = 0
        self._held: dict[Holder, int] = {}
        self.resize(total, share)

    def resize(self, total: int, share: int | None = None) -> None:
        """Set another limit; holders that have more than the limit keep what they have."""
        self.total = total
        self._share = total - total // 4 if share is None else share
        self._open_to_all = total - total // 10
        self._little = max(1, total // 1_000)

    def held(self, holder: Holder) -> int:
        """Return how much a holder has."""
        return self._held.get(holder, 0)

    def has_room(self, holder: Holder, amount: int = 1) -> bool:
        """Return whether ``amount`` more is within the holder's share."""
        used, held = self.used + amount, self._held.get(holder, 0) + amount
        return held <= self._share and used <= (self.total if held <= self._little else self._open_to_all)

    def take(self, holder: Holder, amount: int = 1) -> bool:
        """Give the holder more; return False, and change nothing, if the amount exceeds the holder's share."""
        if not self.has_room(holder, amount):
            return False
        self.add(holder, amount)
        return True

    def add(self, holder: Holder, amount: int = 1) -> None:
        """Count an amount of a holder without a check: from a file, or for the broker itself."""
        self.used += amount
        self._held[holder] = self._held.get(holder, 0) + amount

    def give_back(self, holder: Holder, amount: int = 1) -> None:
        """Reduce the amount of the holder; a holder that has nothing is forgotten."""
        self.used -= amount
        left = self._held[holder] - amount
        if left:
            self._held[holder] = left
        else:
            del self._held[holder]

    def refusal(self, holder: Holder, what: str) -> str:
        """Return the remark for a holder that gets no more; ``what`` names its items: ``offsets of group g``."""
        return (
            f"{what}: {self.held(holder)}, of all: {self.used}, the limit is {self.total}; one has {self._share} of it "
            f"at most, and the last {self.total - self._open_to_all} are for those that have up to {self._little}"
        )


def counted_host(host: str) -> str:
    """Return what counts as one host: an IPv4 address, the network of 64 bits of an IPv6 address, or another text.

    One peer has a whole such network. An IPv4 address that is written as IPv6 counts as IPv4.
    """
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or IPv6Network((address, _IPV6_PREFIX), strict=False))


def oldest_of_greediest(held: Collection[Held], host_of: Callable[[Held], str]) -> Held:
    """Return what has to give way where there is too much: the oldest that the host with most of all has.

    :param held: not empty, the oldest first.
    """
    hosts = [counted_host(host_of(each)) for each in held]
    ((greediest, _),) = Counter(hosts).most_common(1)
    return next(each for each, host in zip(held, hosts, strict=True) if host == greediest)
