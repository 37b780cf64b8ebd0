"""Consumer groups: who consumes, and what the group subscribes to.

Upstream: ``ConsumerManager`` and ``ConsumerGroupInfo``. A group's subscriptions are shared by its members:
the newest ``subVersion`` wins, topics that a heartbeat no longer lists go, whoever sent it. Members that
subscribe differently therefore keep changing it, as they do upstream; it is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.membership.kept_subscriptions import KeptSubscriptions
from gateway.shares import Shares
from gateway.telemetry.logs import EventLog
from wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from wire.codes import RequestCode, ResponseCode
from wire.headers.groups import NotifyConsumerIdsChangedRequest

if TYPE_CHECKING:
    from gateway.metadata.groups import Groups
    from gateway.remoting.channel import Channel
    from wire.bodies.heartbeat import ConsumerData, SubscriptionData

MAX_CONSUMER_GROUPS = 100_000
"""Consumer groups connected at the same time."""
MAX_SUBSCRIPTIONS_PER_GROUP = 5_000
"""Topics that one group subscribes to."""

MAX_CONSUMERS = 500_000
"""Members of all consumer groups: connections times the groups of each."""
MAX_GROUPS_PER_CONSUMER = 2_000
"""Consumer groups of one connection, those that its latest heartbeat left out and that did not run out yet included."""

Notify = Callable[["Channel", str], object]
"""Tells one member that the group (its name) has other members or subscriptions now."""

log = EventLog("consumers")


def notify_consumer_ids_changed(channel: Channel, group: str) -> None:
    """Send NOTIFY_CONSUMER_IDS_CHANGED: the client rebalances at once instead of in 20 s."""
    channel.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumerIdsChangedRequest(consumer_group=group))


class ConsumerGroup:
    """One connected group. A plain class: heartbeats change it, pulls read it."""

    __slots__ = (
        "consume_from_where",
        "consume_type",
        "fingerprint",
        "is_broadcasting",
        "members",
        "name",
        "subscriptions",
        "told_ms",
        "waits_to_tell",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type: str = ConsumeType.CONSUME_PASSIVELY
        self.consume_from_where: str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        self.is_broadcasting = False
        self.fingerprint: int | None = None
        """Of the heartbeat that last brought the subscriptions; None when none brought any."""
        self.members: dict[Channel, ConnectedClient] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.told_ms = 0
        """When its members were last told of a change, in epoch milliseconds."""
        self.waits_to_tell = False

    @property
    def message_model(self) -> str:
        """Upstream's name of the model."""
        return MessageModel.BROADCASTING if self.is_broadcasting else MessageModel.CLUSTERING

    def subscription(self, topic: str) -> SubscriptionData | None:
        """What the group wants of this topic, or None when it does not subscribe it."""
        return self.subscriptions.get(topic)

    def client_ids(self) -> list[str]:
        """Each client once, also while a client that reconnected still has its old connection."""
        return list(dict.fromkeys(client.client_id for client in self.members.values()))

    def merged(self, wanted: Iterable[SubscriptionData]) -> dict[str, SubscriptionData]:
        """The subscriptions after a heartbeat: those that it lists, each in the newest version known."""
        before = self.subscriptions
        after: dict[str, SubscriptionData] = {}
        for subscription in wanted:
            known = before.get(subscription.topic)
            newer = known is None or subscription.sub_version > known.sub_version
            after[subscription.topic] = subscription if newer or known is None else known
        return after


def tell_at_once(group: ConsumerGroup) -> None:
    """Tell all members of a group that it changed."""
    for channel in list(group.members):
        if not channel.closed:
            notify_consumer_ids_changed(channel, group.name)


class Consumers:
    """All connected consumer groups.

    :param groups: says whether a group's members are told of changes (notifyConsumerIdsChangedEnable).
    :param tell: tells the members of a group that changed, now or later.
    :param members: how many members there may be, and groups of one client.
    :param kept: how much memory subscriptions may take.
    """

    def __init__(
        self,
        *,
        groups: Groups,
        tell: Callable[[ConsumerGroup], object] = tell_at_once,
        max_groups: int = MAX_CONSUMER_GROUPS,
        members: Shares[ConnectedClient] | None = None,
        kept: KeptSubscriptions | None = None,
    ) -> None:
        self._configs = groups
        self._tell_members = tell
        self._max_groups = max_groups
        self._members = members or Shares(MAX_CONSUMERS, MAX_GROUPS_PER_CONSUMER)
        self._kept = kept or KeptSubscriptions()
        self._groups: dict[str, ConsumerGroup] = {}

    def group(self, name: str) -> ConsumerGroup | None:
        """The group when it is connected."""
        return self._groups.get(name)

    def names(self) -> list[str]:
        """The names of the connected groups, sorted."""
        return sorted(self._groups)

    def subscription(self, name: str, topic: str) -> SubscriptionData | None:
        """What a connected group wants of a topic."""
        group = self._groups.get(name)
        return group.subscriptions.get(topic) if group is not None else None

    def client_ids(self, name: str) -> list[str]:
        """The ids of a group's clients; empty when it is not connected."""
        group = self._groups.get(name)
        return group.client_ids() if group is not None else []

    def groups_of_topic(self, topic: str) -> list[str]:
        """The connected groups that subscribe a topic, sorted."""
        return sorted(group.name for group in self._groups.values() if topic in group.subscriptions)

    def broadcasting_members(self, name: str) -> list[str]:
        """The client ids of a broadcasting group, one for each connection; empty for all other groups."""
        group = self._groups.get(name)
        if group is None or not group.is_broadcasting:
            return []
        return [client.client_id for client in group.members.values()]

    def readers_of_topic(self, topic: str) -> dict[str, list[str]]:
        """The connected groups that subscribe a topic, with their members as far as they are broadcasting groups."""
        return {name: self.broadcasting_members(name) for name in self.groups_of_topic(topic)}

    def channel_of(self, name: str, client_id: str) -> Channel | None:
        """The newest living connection of a group's client."""
        group = self._groups.get(name)
        clients = list(group.members.values()) if group is not None else []
        for client in reversed(clients):
            if client.client_id == client_id and not client.channel.closed:
                return client.channel
        return None

    def register(
        self,
        client: ConnectedClient,
        data: ConsumerData,
        now_ms: int,
        *,
        fingerprint: int = 0,
        without_subscriptions: bool = False,
    ) -> bool:
        """A heartbeat names the client as a consumer of ``data.group``.

        :param fingerprint: of a second-version heartbeat, else 0.
        :param without_subscriptions: the heartbeat leaves the subscriptions out because they are as before.
        :return: whether the fingerprint is not the one known here: the client sends everything next time.
        :raises RequestRefused: a limit is reached.
        """
        _check_subscriptions(data)
        group = self._groups.get(data.group)
        joined = group is None or client.channel not in group.members
        if joined and not self._members.has_room(client):
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, self._members.refusal(client, f"consumer groups of client {client.client_id}")
            )
        if group is None:
            group = self._new_group(data.group)
        if joined:
            self._members.add(client)
        group.members[client.channel] = client
        client.consumer_groups[group.name] = now_ms
        group.consume_type = data.consume_type
        group.is_broadcasting = data.message_model == MessageModel.BROADCASTING
        group.consume_from_where = data.consume_from_where
        moved = group.fingerprint != fingerprint
        changed = False
        if not without_subscriptions:
            changed = self._subscribe(group, client, data)
            group.fingerprint = fingerprint
        if joined or changed:
            self._tell(group)
        return moved

    def unregister(self, name: str, client: ConnectedClient) -> None:
        """The client leaves the group; the others are told. Nothing happens when it was no member."""
        client.consumer_groups.pop(name, None)
        group = self._groups.get(name)
        if group is None or group.members.pop(client.channel, None) is None:
            return
        self._members.give_back(client)
        self._kept.left(name, client, group.members.values())
        if group.members:
            self._tell(group)
        else:
            del self._groups[name]

    def leave(self, client: ConnectedClient) -> None:
        """Take a client that is gone out of all its groups."""
        for name in list(client.consumer_groups):
            self.unregister(name, client)

    def forget_stale(self, client: ConnectedClient, moment_ms: int) -> None:
        """Take a living client out of the groups that no heartbeat named since a moment."""
        for name, named_ms in list(client.consumer_groups.items()):
            if named_ms < moment_ms:
                self.unregister(name, client)

    def _new_group(self, name: str) -> ConsumerGroup:
        if len(self._groups) >= self._max_groups:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, f"{self._max_groups} consumer groups are connected, the limit"
            )
        group = self._groups[name] = ConsumerGroup(name)
        return group

    def _subscribe(self, group: ConsumerGroup, client: ConnectedClient, data: ConsumerData) -> bool:
        known, after = group.subscriptions, group.merged(data.subscriptions)
        if after == known:
            return False
        self._kept.bring(group.name, client, after.values())
        group.subscriptions = after
        before = set(known)
        changed = before != after.keys()
        if changed and before:
            log.info(
                "subscriptions of a group changed",
                group=group.name,
                client=client.client_id,
                added=sorted(set(group.subscriptions) - before),
                removed=sorted(before - set(group.subscriptions)),
            )
        return changed

    def _tell(self, group: ConsumerGroup) -> None:
        """Every member rebalances; a broadcasting group has nothing to share out."""
        if group.is_broadcasting:
            return
        config = self._configs.get(group.name)
        if config is not None and not config.notify_consumer_ids_changed_enable:
            return
        self._tell_members(group)


def _check_subscriptions(data: ConsumerData) -> None:
    count = len(data.subscriptions)
    if count > MAX_SUBSCRIPTIONS_PER_GROUP:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"group {data.group} subscribes {count} topics, the limit is {MAX_SUBSCRIPTIONS_PER_GROUP}",
        )
