"""The memory that the subscriptions of groups take, charged to the clients that brought the subscriptions.

A group keeps one copy of its subscriptions however many members it has. The member whose heartbeat brought the
subscriptions pays for the copy. When that member leaves, another member pays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.shares import Shares
from wire.bodies.heartbeat import SubscriptionData
from wire.codes import ResponseCode

MAX_SUBSCRIPTION_BYTES = 256 << 20
"""Bytes of memory for the subscriptions of all groups: 800,000 subscriptions without tags."""
MAX_CLIENT_SUBSCRIPTION_BYTES = 64 << 20
"""Bytes of memory for the subscriptions that one client brought.

100 groups of 50 topics take 2 MB; with 20 tags each they take 34 MB.
"""
_SUBSCRIPTION_BYTES: Final = 300
_SETS_BYTES: Final = 450
"""Bytes for the two sets of a subscription with tags; without tags all share one empty set."""
_TAG_BYTES: Final = 320
"""Bytes for a tag and its hash code, each in a set of its own.

Measured, like the other two.
"""


class KeptSubscriptions:
    """The clients that pay, with the bytes that each pays for each group.

    :param total: the limit in bytes for all clients.
    :param share: the limit in bytes for one client.
    """

    def __init__(self, *, total: int = MAX_SUBSCRIPTION_BYTES, share: int = MAX_CLIENT_SUBSCRIPTION_BYTES) -> None:
        self._shares: Shares[ConnectedClient] = Shares(total, share)
        self._paid: dict[str, tuple[ConnectedClient, int]] = {}

    @property
    def used(self) -> int:
        """The estimated bytes of all groups."""
        return self._shares.used

    def bring(self, group: str, client: ConnectedClient, subscriptions: Iterable[SubscriptionData]) -> None:
        """Charge a client for all subscriptions of a group, which its heartbeat brought.

        :raises RequestRefused: SYSTEM_BUSY: the client's share is too small; the earlier payer still pays.
        """
        size = sum(map(_kept_bytes, subscriptions))
        payer, former = self._paid.get(group, (client, 0))
        more = size - (former if payer is client else 0)
        if more > 0 and not self._shares.has_room(client, more):
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                self._shares.refusal(client, f"bytes of subscriptions, {size} of them for group {group}"),
            )
        self._pay(group, client, size)

    def left(self, group: str, client: ConnectedClient, members: Iterable[ConnectedClient]) -> None:
        """Note that a client left the group; if that client paid, another member pays from now on."""
        payer, size = self._paid.get(group, (None, 0))
        if payer is client:
            self._pay(group, next(iter(members), None), size)

    def _pay(self, group: str, client: ConnectedClient | None, size: int) -> None:
        payer, former = self._paid.pop(group, (None, 0))
        if payer is not None:
            self._shares.give_back(payer, former)
        if client is not None and size:
            self._shares.add(client, size)
            self._paid[group] = client, size


def _kept_bytes(subscription: SubscriptionData) -> int:
    tags = subscription.tags_set
    size = _SUBSCRIPTION_BYTES + len(subscription.topic) + len(subscription.sub_string)
    count = max(len(tags), len(subscription.code_set))
    return size + (_SETS_BYTES + _TAG_BYTES * count + sum(map(len, tags)) if count else 0)
