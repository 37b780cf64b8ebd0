"""The memory that the subscriptions of groups take, paid for by the clients that brought them.

A group keeps one copy of its subscriptions however many members it has; the member whose heartbeat brought them pays.
When it leaves, another member does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gateway.errors import RequestRefused
from gateway.shares import Shares
from wire.codes import ResponseCode

if TYPE_CHECKING:
    from gateway.membership.clients import ConnectedClient
    from wire.bodies.heartbeat import SubscriptionData

MAX_SUBSCRIPTION_BYTES = 256 << 20
"""Bytes of memory for the subscriptions of all groups: 350,000 subscriptions with short tags."""
MAX_CLIENT_SUBSCRIPTION_BYTES = 64 << 20
"""Bytes of memory for what one client brought: 100 groups of 50 topics take 4 MB, with 20 tags each 34 MB."""
_SUBSCRIPTION_BYTES: Final = 750
_TAG_BYTES: Final = 300
"""For a tag and its hash code, each in a set of its own; measured, like the bytes of a subscription without any."""


class KeptSubscriptions:
    """Which client pays how much for which group.

    :param total: bytes for all clients.
    :param share: bytes for one.
    """

    def __init__(self, *, total: int = MAX_SUBSCRIPTION_BYTES, share: int = MAX_CLIENT_SUBSCRIPTION_BYTES) -> None:
        self._shares: Shares[ConnectedClient] = Shares(total, share)
        self._paid: dict[str, tuple[ConnectedClient, int]] = {}

    @property
    def used(self) -> int:
        """Bytes of all groups, estimated."""
        return self._shares.used

    def bring(self, group: str, client: ConnectedClient, subscriptions: Iterable[SubscriptionData]) -> None:
        """A client brought all subscriptions of a group anew, and pays for them.

        :raises RequestRefused: SYSTEM_BUSY, they are beyond its share; who paid before still does.
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
        """A client is no member of the group any more; if it paid, one of those that are pays from now on."""
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
    return size + _TAG_BYTES * max(len(tags), len(subscription.code_set)) + sum(map(len, tags))
