"""What a client instance needs to know of the producers and consumers that use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from wire.command import RemotingCommand

if TYPE_CHECKING:
    from gateway.client.connect.routes import TopicRoute
    from wire.bodies.heartbeat import ConsumerData

ProducerData: TypeAlias = str
"""A producer group in a heartbeat is its name, see ``HeartbeatData.producers``."""

Answer: TypeAlias = Callable[[RemotingCommand, str], Awaitable[RemotingCommand | None]]
"""Answers a request of a broker: the command and the broker's ``host:port`` in, the response out; None for none."""


class Member(Protocol):
    """A producer or a consumer within a client instance. Names carry the namespace already."""

    @property
    def group(self) -> str:
        """The name of its group."""

    def producer_data(self) -> ProducerData | None:
        """What heartbeats say of it as a producer."""

    def consumer_data(self) -> ConsumerData | None:
        """What heartbeats say of it as a consumer."""

    def topics(self) -> Collection[str]:
        """Topics whose routes are to be kept fresh."""

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        """Told after the route of one of ``topics`` became known or changed; must not block or raise."""

    def answers(self) -> Mapping[int, Answer]:
        """Which request codes of brokers it answers (39, 40, 220, 221, 307, 309, 326 …)."""
