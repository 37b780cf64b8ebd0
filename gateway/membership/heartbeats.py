"""Heartbeats: the effect of a heartbeat, of a missing heartbeat, and of a closed connection on the groups.

Upstream: ``ClientManageProcessor`` and ``ClientHousekeepingService``. ``gateway.broker.requests.heartbeats`` makes the
answer to the client.
"""

from __future__ import annotations

from gateway.clock import Milliseconds
from gateway.errors import RequestRefused
from gateway.membership.clients import Clients, ConnectedClient
from gateway.membership.consumers import Consumers
from gateway.membership.producers import Producers
from gateway.metadata.groups import Groups
from gateway.metadata.names import group_name_fault, has_retry_topic
from gateway.metadata.topics import Topics
from gateway.remoting.channel import Channel
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from gateway.telemetry.logs import EventLog, Repeats
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.codes import ResponseCode
from wire.message.flags import Permission, TopicFlag
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

MAX_GROUPS_PER_HEARTBEAT = 1_000
"""The number of producer and consumer groups in one heartbeat."""
MAX_CLIENT_ID_CHARACTERS = 1_024
CHANNEL_EXPIRED_MS = 120_000
"""Milliseconds without a heartbeat after which a connection is closed: upstream's default of channelExpiredTimeout."""

log = EventLog("heartbeats")


class Heartbeats:
    """Keeps producers and consumers up to date with the connections.

    :param expired_after_ms: milliseconds without a heartbeat after which a connection is closed.
    """

    def __init__(
        self,
        *,
        producers: Producers,
        consumers: Consumers,
        groups: Groups,
        topics: Topics,
        clock_ms: Milliseconds,
        expired_after_ms: int = CHANNEL_EXPIRED_MS,
    ) -> None:
        self._expired_after_ms = expired_after_ms
        self._producers = producers
        self._consumers = consumers
        self._groups = groups
        self._topics = topics
        self._clock_ms = clock_ms
        self._clients = Clients()
        self._skipped = Repeats(clock_ms, interval_ms=60_000)

    @property
    def clients(self) -> Clients:
        """All connected clients that sent a heartbeat."""
        return self._clients

    def receive(self, channel: Channel, language: int, version: int, data: HeartbeatData) -> bool:
        """Register the groups of a heartbeat; groups that do not exist or have an illegal name are left out.

        :return: whether some group's subscriptions may differ from those that a second-version heartbeat left out.
        :raises RequestRefused: a limit is reached, or the client id is missing.
        """
        check_size(data)
        if channel.closed:
            return False
        now_ms = self._clock_ms()
        client, is_new = self._clients.seen(channel, data.client_id, language, version, now_ms)
        if is_new:
            channel.on_close(self.channel_closed)
        for group in data.producers:
            if self._has_legal_name(group, client):
                self._producers.register(group, client, now_ms)
        moved = False
        for consumer in data.consumers:
            moved |= self._consumer(client, consumer, data, now_ms)
        return moved

    def unregister(self, channel: Channel, *, producer_group: str | None, consumer_group: str | None) -> None:
        """Remove a client that leaves from one producer group, one consumer group, or both."""
        client = self._clients.get(channel)
        if client is None:
            return
        if producer_group:
            self._producers.unregister(producer_group, client)
        if consumer_group:
            self._consumers.unregister(consumer_group, client)

    def channel_closed(self, channel: Channel) -> None:
        """Remove the client of a closed connection from all groups."""
        client = self._clients.remove(channel)
        if client is not None:
            self._producers.leave(client)
            self._consumers.leave(client)

    def close_silent(self) -> Work[None]:
        """Close connections without heartbeats, and drop groups that heartbeats no longer name; called every 10 s."""
        moment_ms = self._clock_ms() - self._expired_after_ms
        looked_at = 0
        for client in self._clients:
            if self._clients.get(client.channel) is not client:  # closed meanwhile
                continue
            looked_at += 1 + len(client.producer_groups) + len(client.consumer_groups)
            if client.last_heartbeat_ms < moment_ms:
                log.warning("client sent no heartbeat for too long", client=client.client_id, remote=client.address)
                self.channel_closed(client.channel)
                client.channel.close(f"no heartbeat for {self._expired_after_ms} ms (channelExpiredTimeout)")
            else:
                self._producers.forget_stale(client, moment_ms)
                self._consumers.forget_stale(client, moment_ms)
            if looked_at >= ENTRIES_PER_TURN:
                looked_at = 0
                yield

    def _consumer(self, client: ConnectedClient, consumer: ConsumerData, data: HeartbeatData, now_ms: int) -> bool:
        if not self._has_legal_name(consumer.group, client):
            return False
        host = client.channel.remote[0]
        config = self._groups.find(consumer.group, host)
        if config is None:
            self._skip(consumer.group, client, "the group does not exist (autoCreateSubscriptionGroup=false)")
            return False
        self._ensure_retry_topic(consumer, config, host)
        return self._consumers.register(
            client,
            consumer,
            now_ms,
            fingerprint=data.fingerprint,
            without_subscriptions=data.fingerprint != 0 and data.without_sub,
        )

    def _ensure_retry_topic(self, consumer: ConsumerData, config: SubscriptionGroupConfig, host: str) -> None:
        """Create the group's retry topic, in which failed messages wait, and to which its consumers need a route."""
        topic = RETRY_TOPIC_PREFIX + consumer.group
        if config.retry_queue_nums <= 0 or self._topics.is_copy or not has_retry_topic(consumer.group):
            return
        if self._topics.get(topic) is not None:
            return
        self._topics.ensure(
            topic,
            config.retry_queue_nums,
            Permission.READ_WRITE,
            topic_sys_flag=TopicFlag.UNIT_SUBSCRIPTION if consumer.unit_mode else 0,
            order=any(self._is_ordered(subscription.topic) for subscription in consumer.subscriptions),
            maker=host,
        )

    def _is_ordered(self, topic: str) -> bool:
        config = self._topics.get(topic)
        return config is not None and config.order

    def _has_legal_name(self, group: str, client: ConnectedClient) -> bool:
        fault = group_name_fault(group)
        if fault is not None:
            self._skip(group, client, fault)
        return fault is None

    def _skip(self, group: str, client: ConnectedClient, reason: str) -> None:
        left_out = self._skipped.due((group, client.client_id))
        if left_out is not None:
            log.warning(
                "group left out of a heartbeat",
                group=group,
                client=client.client_id,
                reason=reason,
                left_out=left_out,
            )


def check_size(data: HeartbeatData) -> None:
    """Refuse a heartbeat without a client id, or with too much in it.

    :raises RequestRefused: INVALID_PARAMETER.
    """
    if not 0 < len(data.client_id) <= MAX_CLIENT_ID_CHARACTERS:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"clientID has {len(data.client_id)} characters, allowed are 1 to {MAX_CLIENT_ID_CHARACTERS}",
        )
    count = len(data.producers) + len(data.consumers)
    if count > MAX_GROUPS_PER_HEARTBEAT:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"the heartbeat names {count} groups, the limit is {MAX_GROUPS_PER_HEARTBEAT}",
        )
