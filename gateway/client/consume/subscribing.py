"""The steps of a consumer before it joins its group: look up its topics, have SQL92 expressions checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.client.errors import ConfigurationError, RouteNotFound
from wire.bodies.consume_kinds import EXPRESSION_TYPE_TAG
from wire.bodies.consumers import CheckClientRequest
from wire.codes import RequestCode

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.subscriptions import Subscription


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
