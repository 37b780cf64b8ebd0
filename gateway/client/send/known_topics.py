"""The topics to which a sender has sent, and the queues of each topic that the sender may choose from."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from gateway.client.errors import BrokerError, ConnectError, ProtocolError, RouteNotFound
from gateway.client.names import with_namespace
from gateway.client.send.topic_targets import TopicTargets

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.connect.producer_settings import ProducerSettings
    from gateway.client.connect.routes import TopicRoute
    from gateway.client.send.queue_choice import BrokerFaults

_log = logging.getLogger(__name__)

MAX_TOPICS: Final = 10_000
"""The most topics whose queues are remembered. A further topic replaces the topic that was used first."""
_REFRESH_PATIENCE: Final = 0.5
"""The seconds for which a message waits for a newer route if a route is known.

The request for the route goes on after this time, for later messages.
"""


class KnownTopics:
    """The topics to which a sender has sent, and their queues.

    :param faults: the brokers to avoid for a while; None: no broker is avoided.
    """

    def __init__(self, instance: ClientInstance, settings: ProducerSettings, faults: BrokerFaults | None) -> None:
        self.targets: dict[str, TopicTargets] = {}
        """The queues of each topic, by the name without the namespace."""
        self.wire_topics: dict[str, str] = {}
        """The name of each topic without the namespace, by the name with the namespace."""
        self._instance = instance
        self._settings = settings
        self._faults = faults
        self._loop = asyncio.get_running_loop()

    async def learn(self, topic: str) -> TopicTargets:
        """Ask for the route of a topic and remember its queues.

        Sends that ask at the same time take turns among the same queues.

        :raises RouteNotFound: no name server knows the topic, or the topic cannot be written.
        """
        wire_topic = with_namespace(self._settings.namespace, topic)
        if wire_topic not in self.wire_topics:
            if len(self.wire_topics) >= MAX_TOPICS:
                forgotten = next(iter(self.wire_topics))
                self.targets.pop(self.wire_topics.pop(forgotten), None)
            self.wire_topics[wire_topic] = topic
        route = await self._route(wire_topic)
        learned = self.targets.get(topic)
        if learned is not None and learned.route == route:
            return learned
        targets = self.targets[topic] = self._targets_of(topic, route)
        return targets

    def forget(self, topic: str) -> None:
        """Forget the queues of a topic, so that the next message asks for the route again."""
        self.targets.pop(topic, None)

    def route_changed(self, wire_topic: str, route: TopicRoute) -> None:
        """Note a new route of a topic, which is named with its namespace."""
        topic = self.wire_topics.get(wire_topic)
        if topic is None:
            return
        try:
            self.targets[topic] = self._targets_of(topic, route)
        except RouteNotFound:
            self.forget(topic)  # the next message asks again, and is told

    async def _route(self, wire_topic: str) -> TopicRoute:
        """Return the newest route that is available soon.

        A known route serves while the name servers are not reachable or do not know the topic.
        """
        settings = self._settings
        known = self._instance.known_route(wire_topic)
        asked = self._instance.route(
            wire_topic,
            refresh=known is not None,
            template=settings.create_topic_key,
            template_queues=settings.default_topic_queue_nums,
        )
        if known is None:
            return await asked
        try:
            async with asyncio.timeout(_REFRESH_PATIENCE):
                return await asked
        except (BrokerError, ConnectError, ProtocolError, RouteNotFound, TimeoutError) as error:
            cause = error.reason if isinstance(error, RouteNotFound) else str(error)
            _log.warning(
                "the route of topic %s stays as it was: %s", wire_topic, cause or "the name servers take their time"
            )
            return known

    def _targets_of(self, topic: str, route: TopicRoute) -> TopicTargets:
        faults = self._faults
        return TopicTargets(
            topic,
            route,
            self._instance.name_servers.addresses,
            start=self._instance.random.randrange(65_536),
            allowed=(lambda name: faults.is_available(name, self._loop.time() * 1000)) if faults is not None else None,
        )
