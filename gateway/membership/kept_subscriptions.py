"""The memory that the subscriptions of groups take, paid for by the clients that brought them.

A group keeps one copy of its subscriptions however many members it has; the member whose heartbeat brought them pays.
When it leaves, another member does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gateway.errors import RequestRefused
from gateway.shares import Shares
from wire.codes import ResponseCode

if TYPE_CHECKING:
    from gateway.membership.clients import Client
    from gateway.membership.consumers import ConsumerGroup
    from wire.bodies.heartbeat import SubscriptionData

MAX_SUBSCRIPTION_BYTES = 256 << 20
"""Bytes of memory for the subscriptions of all groups: 350,000 subscriptions with short tags."""
MAX_CLIENT_SUBSCRIPTION_BYTES = 64 << 20
"""Bytes of memory for what one client brought: 100 groups of 50 topics take 4 MB, with 20 tags each 34 MB."""
_SUBSCRIPTION_BYTES: Final = 750
_TAG_BYTES: Final = 300
"""For a tag and its hash code, each in a set of its own; measured, like the bytes of a subscription without any."""


class KeptSubscriptions:
    """Which client pays how much.

    :param total: bytes for all clients.
    :param share: bytes for one.
    """

    def __init__(self, *, total: int = MAX_SUBSCRIPTION_BYTES, share: int = MAX_CLIENT_SUBSCRIPTION_BYTES) -> None:
        self._shares: Shares[Client] = Shares(total, share)

    @property
    def used(self) -> int:
        """Bytes of all groups, estimated."""
        return self._shares.used

    def keep(self, group: ConsumerGroup, client: Client, subscriptions: Mapping[str, SubscriptionData]) -> None:
        """Give a group these subscriptions, which the client brought.

        :raises RequestRefused: SYSTEM_BUSY, they are beyond its share; the group keeps those that it has.
        """
        size = sum(map(_kept_bytes, subscriptions.values()))
        self._release(group)
        if size and not self._shares.take(client, size):
            remark = self._shares.refusal(client, f"bytes of subscriptions, {size} more for group {group.name}")
            if group.paid_by is not None and group.paid_bytes:
                self._shares.add(group.paid_by, group.paid_bytes)
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, remark)
        group.subscriptions = dict(subscriptions)
        group.paid_by, group.paid_bytes = client, size

    def left(self, group: ConsumerGroup, client: Client) -> None:
        """A client is no member of the group any more; one that is pays from now on."""
        if group.paid_by is not client:
            return
        self._release(group)
        group.paid_by = next(iter(group.members.values()), None)
        if group.paid_by is not None and group.paid_bytes:
            self._shares.add(group.paid_by, group.paid_bytes)

    def _release(self, group: ConsumerGroup) -> None:
        if group.paid_by is not None and group.paid_bytes:
            self._shares.give_back(group.paid_by, group.paid_bytes)


def _kept_bytes(subscription: SubscriptionData) -> int:
    tags = subscription.tags_set
    size = _SUBSCRIPTION_BYTES + len(subscription.topic) + len(subscription.sub_string)
    return size + _TAG_BYTES * max(len(tags), len(subscription.code_set)) + sum(map(len, tags))
