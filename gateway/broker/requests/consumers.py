"""Connected clients: the consumers of a group, the producers of a group, all producers.

Upstream: ``ConsumerManageProcessor`` and ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from typing import Any

from gateway.broker.desk import DeskRequests
from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.remoting.declared import CLUSTER_GET, GET, SERVED, SUB, Size, needs, on_group
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text, table_of_texts, table_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import Work
from wire.bodies.consumers import (
    Connection,
    ConsumerConnection,
    ConsumerListByGroup,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from wire.codes import RequestCode, ResponseCode, language_name
from wire.headers.groups import (
    GetConsumerConnectionListRequest,
    GetConsumerListByGroupRequest,
    GetProducerConnectionListRequest,
)


class ConnectedClients(DeskRequests):
    """Requests about connected clients."""

    @answers_in_turns(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequest, needs(on_group(SUB | GET)), slave=SERVED
    )
    def consumer_ids(self, _request: Request, header: GetConsumerListByGroupRequest) -> Work[Answer]:
        """Answer with the client ids of a group; the members divide the queues by these ids."""
        group = header.consumer_group
        client_ids = self._desk.consumers.client_ids(group)
        if not client_ids:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        text = yield from list_text(f"clients of group {group}", client_ids)
        return Answer(body=ConsumerListByGroup(text).build())

    @answers(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        GetConsumerConnectionListRequest,
        needs(on_group(GET)),
        Size.LIST,
        slave=SERVED,
    )
    async def consumer_connections(self, request: Request, header: GetConsumerConnectionListRequest) -> Answer:
        """Answer with a group's connections and subscriptions."""
        group = self._desk.consumers.group(header.consumer_group)
        if group is None:
            raise RequestRefused(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{header.consumer_group}] not online"
            )
        what = f"connections of group {header.consumer_group}"
        connections, subscriptions = list(group.members.values()), dict(group.subscriptions)
        text: Any = await self._desk.turns.run(list_text(what, map(_connection, connections)), request.channel)
        topics: Any = await self._desk.turns.run(
            table_text(what, ((topic, subscriptions[topic].to_json()) for topic in sorted(subscriptions))),
            request.channel,
        )
        body = ConsumerConnection(
            connections=text,
            subscriptions=topics,
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return Answer(body=body.build())

    @answers(
        RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnectionListRequest, CLUSTER_GET, Size.LIST, slave=SERVED
    )
    async def producer_connections(self, request: Request, header: GetProducerConnectionListRequest) -> Answer:
        """Answer with a producer group's connections."""
        members = self._desk.producers.members(header.producer_group)
        if not members:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{header.producer_group}] not exist")
        what = f"connections of producer group {header.producer_group}"
        text: Any = await self._desk.turns.run(list_text(what, map(_connection, members)), request.channel)
        return Answer(body=ProducerConnection(text).build())

    @answers_in_turns(RequestCode.GET_ALL_PRODUCER_INFO, None, CLUSTER_GET, Size.LIST, slave=SERVED)
    def all_producers(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with the connections of every producer group."""
        what, producers = "connections of all producer groups", self._desk.producers
        lists = (
            (group, list_text(what, map(_producer_info, producers.members(group)))) for group in producers.groups()
        )
        text: Any = yield from table_of_texts(what, lists)
        return Answer(body=ProducerTableInfo(text).build())


def _connection(client: ConnectedClient) -> dict[str, Any]:
    connection = Connection(
        client_id=client.client_id,
        client_addr=client.address,
        language=language_name(client.language),
        version=client.version,
    )
    return connection.to_json()


def _producer_info(client: ConnectedClient) -> dict[str, Any]:
    info = ProducerInfo(
        client_id=client.client_id,
        remote_ip=f"/{client.address}",  # as upstream writes an address
        language=language_name(client.language),
        version=client.version,
        last_update_timestamp=client.last_heartbeat_ms,
    )
    return info.to_json()
