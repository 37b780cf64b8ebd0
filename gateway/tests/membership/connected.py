"""A broker's membership with clients that connect, send heartbeats and leave; without sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.in_thread import InThread, in_this_thread
from gateway.membership.clients import ConnectedClient
from gateway.membership.consumers import Consumers
from gateway.membership.heartbeats import Heartbeats
from gateway.membership.kept_subscriptions import KeptSubscriptions
from gateway.membership.producers import Producers
from gateway.metadata.groups import Groups
from gateway.metadata.topics import Topics
from gateway.remoting.channel import Channel
from gateway.remoting.turns import finish
from gateway.settings import BrokerSettings
from gateway.shares import Shares
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.codes import RequestCode

JAVA = 0
VERSION = 513


class Members:
    """Everything that a heartbeat touches, at a time moved by hand."""

    def __init__(
        self,
        directory: Path,
        *,
        max_groups: int = 1000,
        producers: Shares[ConnectedClient] | None = None,
        consumers: Shares[ConnectedClient] | None = None,
        kept: KeptSubscriptions | None = None,
        in_thread: InThread = in_this_thread,
        **changed: Any,
    ) -> None:
        self.now_ms = 1_000_000
        settings = BrokerSettings(broker_name="broker-a", **changed)
        saved: dict[str, Any] = {"settings": settings, "clock_ms": self.clock, "in_thread": in_thread}
        self.topics = Topics(path=directory / "topics.json", **saved)
        self.groups = Groups(path=directory / "groups.json", **saved)
        self.producers = Producers(max_groups=max_groups, members=producers)
        self.consumers = Consumers(groups=self.groups, max_groups=max_groups, members=consumers, kept=kept)
        self.heartbeats = Heartbeats(
            producers=self.producers,
            consumers=self.consumers,
            groups=self.groups,
            topics=self.topics,
            clock_ms=self.clock,
        )
        self._server = Conversation()

    def clock(self) -> int:
        """The time by hand."""
        return self.now_ms

    def client(self, client_id: str) -> Member:
        """A client that has connected and not yet said anything."""
        return Member(self, client_id, self._server.connect())

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass and look for silent clients, as the broker does every 10 s."""
        self.now_ms += milliseconds
        finish(self.heartbeats.close_silent())


class Member:
    """One client."""

    def __init__(self, members: Members, client_id: str, peer: Peer) -> None:
        self._members = members
        self.client_id = client_id
        self.peer = peer

    @property
    def channel(self) -> Channel:
        """The broker's side of the connection."""
        return self.peer.channel

    def produces(self, *groups: str) -> None:
        """Send a heartbeat as producer."""
        self.beats(HeartbeatData(self.client_id, producers=groups))

    def consumes(self, group: str, *topics: str, **rest: Any) -> None:
        """Send a heartbeat as consumer of a group."""
        self.beats(HeartbeatData(self.client_id, consumers=(consumer(group, *topics, **rest),)))

    def beats(self, data: HeartbeatData, *, version: int = VERSION) -> bool:
        """Send any heartbeat."""
        return self._members.heartbeats.receive(self.channel, JAVA, version, data)

    def told_groups(self) -> list[str]:
        """The groups whose change this client was told of since the last call."""
        self.channel.write_out()
        return [
            command.ext_fields["consumerGroup"]
            for command in self.peer.received()
            if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and command.is_oneway
        ]


def consumer(group: str, *topics: str, sub_version: int = 1, **rest: Any) -> ConsumerData:
    """A consumer of topics without a filter."""
    return ConsumerData(group, subscriptions=[subscription(topic, sub_version) for topic in topics], **rest)
