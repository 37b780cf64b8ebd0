"""The base of all asyncio consumers: a group, its subscriptions, and the steps of joining the group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from gateway.client.connect.client import Client
from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Member
from gateway.client.consume.settings.consumer_settings import ConsumerSettings, SimpleSettings
from gateway.client.consume.subscriptions import Sql, Subscription, subscription_of
from gateway.client.errors import ConfigurationError, RouteNotFound
from gateway.client.names import check_group, with_namespace
from wire.bodies.consume_kinds import EXPRESSION_TYPE_TAG
from wire.bodies.consumers import CheckClientRequest
from wire.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel
from wire.codes import RequestCode


class GroupConsumer(Client, Member):
    """A member of a consumer group.

    :param kind: the name of this kind of consumer in errors.
    :param subscriptions: topic → tags (``"A || B"``, ``"*"``) or ``Sql(...)``.
    """

    settings: ConsumerSettings | SimpleSettings
    _consume_type: ClassVar[ConsumeType]
    _message_model: str = MessageModel.CLUSTERING.value
    _needs_subscriptions: ClassVar[bool] = True

    def __init__(
        self,
        kind: str,
        group: str,
        settings: ConsumerSettings | SimpleSettings,
        subscriptions: Mapping[str, str | Sql] | None,
    ) -> None:
        check_group(group)
        self.settings = settings
        self.group = with_namespace(settings.namespace, group)
        """The group's name with its namespace."""
        super().__init__(f"{kind} {self.group}")
        self._subscriptions: dict[str, Subscription] = {}
        self._version_ms = 0
        if not isinstance(subscriptions, Mapping | None):
            raise ConfigurationError("subscriptions", subscriptions, "a mapping, as {'orders': '*'}")
        self._wanted = dict(subscriptions or {})
        for topic, wanted in self._wanted.items():
            subscription_of(topic, wanted, version_ms=0)  # refuses what cannot work before anything is started

    async def start(self) -> None:
        """Join the group and start to consume. Idempotent.

        A consumer that reads queues returns from here after the first division of the queues among the members.

        :raises ConnectError: no name server can be reached. Without a route, the consumer waits for the topic.
        :raises BrokerError: a SQL92 expression is refused.
        :raises ConfigurationError: no topic is subscribed to, or the settings name no name server.
        """
        self._check_usable()
        if self._instance is not None:
            return
        if self._needs_subscriptions and not self._wanted:
            raise ConfigurationError("subscriptions", {}, "at least one topic, as {'orders': '*'}")
        self._instance = instance = ClientInstance(self.settings)
        self._watch()
        try:
            self._assemble(instance)
            await self._join(instance)
            await self._begin()
        except BaseException:
            self._is_closed = True
            await self._abandon(instance)
            raise

    # --- a member of the client instance --------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        """Return the entry of this consumer in heartbeats."""
        return ConsumerData(
            self.group,
            self._consume_type.value,
            self._message_model,
            self.settings.consume_from_where.value,
            subscriptions=[subscription.data() for subscription in self.subscriptions().values()],
        )

    def topics(self) -> Collection[str]:
        """Return the topics whose routes are kept up to date."""
        return self._subscriptions.keys()

    def subscriptions(self) -> Mapping[str, Subscription]:
        """Return the subscriptions by topic."""
        return self._subscriptions

    # --- inside: what kinds of consumers do differently -------------------------------------------------------

    def _assemble(self, instance: ClientInstance) -> None:
        """Make the parts of the running consumer."""

    async def _begin(self) -> None:
        """Start to work, after the consumer became a member."""

    async def _abandon(self, instance: ClientInstance) -> None:
        """Close the parts that exist, after a start that failed."""
        await instance.close()

    # --- inside ---------------------------------------------------------------------------------------------

    async def _join(self, instance: ClientInstance) -> None:
        """Look up the topics, and become a member that the brokers know."""
        await instance.start()
        for topic, wanted in self._wanted.items():
            self._add(instance, topic, wanted)
        await first_routes(instance, list(self._subscriptions))
        for subscription in self._subscriptions.values():
            await check_subscription(instance, self.group, subscription)
        instance.join(self)
        await instance.heartbeat()

    def _add(self, instance: ClientInstance, topic: str, wanted: str | Sql) -> Subscription:
        name = with_namespace(self.settings.namespace, topic)
        self._version_ms = max(self._version_ms + 1, instance.clock())
        subscription = self._subscriptions[name] = subscription_of(name, wanted, version_ms=self._version_ms)
        return subscription


async def first_routes(instance: ClientInstance, topics: Sequence[str]) -> None:
    """Look up the routes of topics; a topic that does not exist yet is logged and looked up again later.

    :raises ConnectError, RequestTimeout: no name server could be asked.
    :raises ConfigurationError: the settings name no name server.
    """
    if not instance.settings.name_servers:
        raise ConfigurationError("namesrv", instance.settings.namesrv, "the address of a name server, as 'host:9876'")
    for topic in topics:
        try:
            await instance.route(topic)
        except RouteNotFound as error:
            instance.route_failed(topic, error)


async def check_subscription(instance: ClientInstance, group: str, subscription: Subscription) -> None:
    """Have each broker of the topic check an expression other than tags (46); do nothing if the route is unknown.

    :raises BrokerError: the expression is refused, or the broker has ``enablePropertyFilter=false``.
    """
    if subscription.expression_type == EXPRESSION_TYPE_TAG:
        return
    route = instance.known_route(subscription.topic)
    if route is None:
        return
    body = CheckClientRequest(instance.client_id, group, None, subscription.data()).build()
    for name in sorted(route.brokers):
        await instance.ask(name, RequestCode.CHECK_CLIENT_CONFIG, None, body)
