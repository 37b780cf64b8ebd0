"""Consumer groups: their members, and the topics to which each group subscribes.

Upstream: ``ConsumerManager`` and ``ConsumerGroupInfo``. All members of a group share its subscriptions. For each topic
the newest ``subVersion`` wins. Topics that a heartbeat does not list are removed, whoever added them. Members that
subscribe to different topics therefore keep changing the subscriptions, as upstream; such changes are logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.membership.kept_subscriptions import KeptSubscriptions
from gateway.metadata.groups import Groups
from gateway.remoting.channel import Channel
from gateway.shares import Shares
from gateway.telemetry.logs import EventLog
from wire.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from wire.codes import RequestCode, ResponseCode
from wire.headers.groups import NotifyConsumerIdsChangedRequest

MAX_CONSUMER_GROUPS = 100_000
"""The number of consumer groups that may be connected at the same time."""
MAX_SUBSCRIPTIONS_PER_GROUP = 5_000
"""The number of topics that one group may subscribe to."""

MAX_CONSUMERS = 500_000
"""The number of members of all consumer groups: connections times the groups of each."""
MAX_GROUPS_PER_CONSUMER = 2_000
"""The number of consumer groups of one connection.

Groups that its latest heartbeat left out count until they expire.
"""

Notify = Callable[["Channel", str], object]
"""A function that notifies one member that the named group has other members or subscriptions now."""

log = EventLog("consumers")


def notify_consumer_ids_changed(channel: Channel, group: str) -> None:
    """Send NOTIFY_CONSUMER_IDS_CHANGED: the client rebalances at once instead of within 20 s."""
    channel.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumerIdsChangedRequest(consumer_group=group))


_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.Decoder(tuple[SubscriptionData, ...]).decode


class _Subscribed(msgspec.Struct, frozen=True):
    """The part of a packed subscription that names its topic, which is its first member."""

    topic: str


_unpack_topics = msgspec.msgpack.Decoder(tuple[_Subscribed, ...]).decode


class ConsumerGroup:
    """One connected group. A plain class for speed: heartbeats change it, and pulls read it.

    The subscriptions are packed into bytes until a pull asks for one. So the memory that many groups took is given back
    when they leave: bytes of this size are not among the small objects, whose memory stays in part.
    """

    __slots__ = (
        "_open",
        "_packed",
        "consume_from_where",
        "consume_type",
        "fingerprint",
        "is_broadcasting",
        "members",
        "name",
        "told_ms",
        "waits_to_tell",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type: str = ConsumeType.CONSUME_PASSIVELY
        self.consume_from_where: str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        self.is_broadcasting = False
        self.fingerprint: int | None = None
        """The fingerprint of the heartbeat that last brought the subscriptions; None before such a heartbeat."""
        self.members: dict[Channel, ConnectedClient] = {}
        self._open: Mapping[str, SubscriptionData] | None = None
        self._packed = _pack(())
        self.told_ms = 0
        """The time when the members were last notified of a change, in epoch milliseconds."""
        self.waits_to_tell = False

    @property
    def message_model(self) -> str:
        """The name of the message model, as upstream."""
        return MessageModel.BROADCASTING if self.is_broadcasting else MessageModel.CLUSTERING

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]:
        """The subscriptions by topic."""
        if self._open is not None:
            return self._open
        return {subscription.topic: subscription for subscription in _unpack(self._packed)}

    @subscriptions.setter
    def subscriptions(self, subscriptions: Mapping[str, SubscriptionData]) -> None:
        self._packed = _pack(tuple(subscriptions.values()))
        self._open = None

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Return the group's subscription to this topic; None if the group does not subscribe to the topic."""
        if self._open is None:
            self._open = self.subscriptions
        return self._open.get(topic)

    def reads(self, topic: str) -> bool:
        """Return whether the group subscribes to a topic."""
        if self._open is not None:
            return topic in self._open
        begin = _pack(_Subscribed(topic))[1:]  # without the number of members
        return begin in self._packed and any(one.topic == topic for one in _unpack_topics(self._packed))

    def client_ids(self) -> list[str]:
        """Return each client id once, even if a client that reconnected still has its old connection."""
        return list(dict.fromkeys(client.client_id for client in self.members.values()))

    def merged(self, wanted: Iterable[SubscriptionData]) -> dict[str, SubscriptionData]:
        """Return the subscriptions after a heartbeat: those that it lists, each in the newest known version."""
        before = self.subscriptions
        after: dict[str, SubscriptionData] = {}
        for subscription in wanted:
            known = before.get(subscription.topic)
            newer = known is None or subscription.sub_version > known.sub_version
            after[subscription.topic] = subscription if newer or known is None else known
        return after


def tell_at_once(group: ConsumerGroup) -> None:
    """Notify all members of a group that the group changed."""
    for channel in list(group.members):
        if not channel.closed:
            notify_consumer_ids_changed(channel, group.name)


class Consumers:
    """All connected consumer groups.

    :param groups: the configurations, which say whether a group's members are notified
        (notifyConsumerIdsChangedEnable).
    :param tell: notifies the members of a group that changed, now or later.
    :param members: the limits of all members, and of the groups of one client.
    :param kept: the limits of the memory for subscriptions.
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
        """Return a group; None if it is not connected."""
        return self._groups.get(name)

    def names(self) -> list[str]:
        """Return the names of the connected groups, sorted."""
        return sorted(self._groups)

    def subscription(self, name: str, topic: str) -> SubscriptionData | None:
        """Return a connected group's subscription to a topic; None if there is none."""
        group = self._groups.get(name)
        return group.subscription(topic) if group is not None else None

    def client_ids(self, name: str) -> list[str]:
        """Return the ids of a group's clients; empty if the group is not connected."""
        group = self._groups.get(name)
        return group.client_ids() if group is not None else []

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return the names of the connected groups that subscribe to a topic, sorted."""
        return sorted(group.name for group in self._groups.values() if group.reads(topic))

    def broadcasting_members(self, name: str) -> list[str]:
        """Return the client ids of a broadcasting group, one for each connection; empty for all other groups."""
        group = self._groups.get(name)
        if group is None or not group.is_broadcasting:
            return []
        return [client.client_id for client in group.members.values()]

    def readers_of_topic(self, topic: str) -> dict[str, list[str]]:
        """Return the connected groups that subscribe to a topic, with the client ids of broadcasting groups.

        Other groups have an empty list.
        """
        return {name: self.broadcasting_members(name) for name in self.groups_of_topic(topic)}

    def channel_of(self, name: str, client_id: str) -> Channel | None:
        """Return the newest open connection of a group's client; None if there is none."""
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
        """Register the client as a consumer of ``data.group``, as a heartbeat asks.

        :param fingerprint: the fingerprint of a second-version heartbeat, otherwise 0.
        :param without_subscriptions: the heartbeat leaves the subscriptions out because they have not changed.
        :return: whether the fingerprint differs from the known one: then the client sends everything next time.
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
        """Remove the client from the group and notify the other members; nothing happens if it was no member."""
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
        """Remove a client whose connection is gone from all its groups."""
        for name in list(client.consumer_groups):
            self.unregister(name, client)

    def forget_stale(self, client: ConnectedClient, moment_ms: int) -> None:
        """Remove a connected client from the groups that no heartbeat has named since a moment."""
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
        """Notify every member so that it rebalances, except in a broadcasting group, whose members share no queues."""
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
