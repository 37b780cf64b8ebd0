"""Requests for the route of a topic, and for the list of brokers.

Upstream: ``ClientRequestProcessor`` and ``DefaultRequestProcessor.getBrokerClusterInfo``.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gateway.clock import Milliseconds
from gateway.errors import RequestRefused
from gateway.nameserver.kv_config import ORDER_NAMESPACE, KvConfig
from gateway.nameserver.route_table import RouteTable
from gateway.remoting.declared import CLUSTER_GET, EVERYBODY, Size
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text, table_text
from gateway.remoting.requests import Requests, answers, answers_in_turns
from gateway.remoting.turns import Turns, Work
from gateway.settings import NameServerSettings
from wire.bodies.route import TopicRouteData
from wire.codes import RequestCode, ResponseCode
from wire.headers.name_server import GetRouteInfoRequest

BROKERS_AT_ONCE = 500
"""The most brokers, masters and slaves, of a route that is written in one turn; 500 brokers take 10 ms."""
STANDARD_JSON_VERSION = 401
"""V4_9_4: clients of this or a later version get keys in quotes, older ones fastjson's plain form (``MQVersion``)."""


class RouteRequests(Requests):
    """The requests GET_ROUTEINFO_BY_TOPIC (105) and GET_BROKER_CLUSTER_INFO (106)."""

    def __init__(
        self,
        *,
        routes: RouteTable,
        kv_config: KvConfig,
        settings: NameServerSettings,
        clock_ms: Milliseconds,
        turns: Turns,
    ) -> None:
        self._routes = routes
        self.turns = turns
        self._kv_config = kv_config
        self._settings = settings
        self._clock_ms = clock_ms
        self._ready_at_ms = clock_ms() + settings.wait_seconds_for_service * 1_000

    @answers(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest, EVERYBODY)
    def route(self, request: Request, header: GetRouteInfoRequest) -> Answer | Deferred[Answer]:
        """Answer with the queues and brokers of a topic."""
        if self._settings.need_wait_for_service and self._clock_ms() < self._ready_at_ms:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "name server not ready")
        if self._routes.addresses_of(header.topic) <= BROKERS_AT_ONCE:
            route, standard = self._found(request, header)
            return Answer(body=route.build(standard=standard))
        return self.turns.run(self._long_route(request, header), request.channel)

    def _found(self, request: Request, header: GetRouteInfoRequest) -> tuple[TopicRouteData, bool]:
        """Return the route of a topic, and True if the route has to be written as standard JSON."""
        route = self._routes.route(header.topic, request.channel.local[0])
        if route is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {header.topic}",
            )
        if self._settings.order_message_enable:
            route = replace(route, order_topic_conf=self._kv_config.get(ORDER_NAMESPACE, header.topic))
        return route, bool(header.accept_standard_json_only) or request.command.version >= STANDARD_JSON_VERSION

    def _long_route(self, request: Request, header: GetRouteInfoRequest) -> Work[Answer]:
        """Find and write a route in several turns, because the route has many brokers."""
        route, standard = self._found(request, header)
        what = f"route of topic {header.topic} over {len(route.queue_datas)} brokers"
        java = not standard
        queues = yield from list_text(what, (queue.to_json() for queue in route.queue_datas), java_form=java)
        yield
        brokers = yield from list_text(what, (broker.to_json() for broker in route.broker_datas), java_form=java)
        yield
        return Answer(body=replace(route, queue_datas=queues, broker_datas=brokers).build(standard=standard))

    @answers_in_turns(RequestCode.GET_BROKER_CLUSTER_INFO, None, CLUSTER_GET, Size.LIST)
    def cluster_info(self, request: Request, _header: None) -> Work[Answer]:
        """Answer with all brokers, by name and by cluster."""
        info = self._routes.cluster_info(request.channel.local[0])
        brokers = sorted(info.broker_addr_table.items())
        table: Any = yield from table_text("list of brokers", ((name, data.to_json()) for name, data in brokers))
        return Answer(body=replace(info, broker_addr_table=table).build())
