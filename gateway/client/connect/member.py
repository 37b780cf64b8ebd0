"""The interface between a client instance and the producers and consumers that use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

from wire.command import RemotingCommand

if TYPE_CHECKING:
    from gateway.client.connect.routes import TopicRoute
    from wire.bodies.heartbeat import ConsumerData

Answer: TypeAlias = Callable[[RemotingCommand, str], Awaitable[RemotingCommand | None]]
"""Answers a request of a broker: gets the command and the broker's ``host:port``, returns the response or None."""


class Member:
    """A producer or consumer of a client instance, with names that include the namespace.

    A subclass overrides what it needs: this class is neither, and asks for nothing.
    """

    group: str
    """The name of the member's group."""

    def producer_data(self) -> str | None:
        """Return the group for the producers of heartbeats, None if the member is not a producer."""
        return None

    def consumer_data(self) -> ConsumerData | None:
        """Return the entry of this member among the consumers of heartbeats, None if it is not a consumer."""
        return None

    def topics(self) -> Collection[str]:
        """Return the topics whose routes must be kept up to date."""
        return ()

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        """Note the route of one of ``topics``.

        Called after the route became known or changed; must not block or raise.
        """

    def answers(self) -> Mapping[int, Answer]:
        """Return the requests of brokers that this member answers, by code (39, 40, 220, 221, 307, 309, 326 …)."""
        return {}
