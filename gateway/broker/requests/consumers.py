"""Who is connected: the consumers of a group, the producers of a group, all producers.

Upstream: ``ConsumerManageProcessor`` and ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Answer
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

if TYPE_CHECKING:
    from gateway.membership.clients import Client
    from gateway.membership.consumers import Consumers
    from gateway.membership.producers import Producers
    from gateway.remoting.dispatch import Dispatch, Request


class ConnectedClients:
    """Answers GET_CONSUMER_LIST_BY_GROUP (38), GET_CONSUMER_CONNECTION_LIST (203),
    GET_PRODUCER_CONNECTION_LIST (204) and GET_ALL_PRODUCER_INFO (328).
    """

    def __init__(self, *, producers: Producers, consumers: Consumers) -> None:
        self._producers = producers
        self._consumers = consumers

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequest, self.consumer_ids)
        dispatch.answers(
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            GetConsumerConnectionListRequest,
            self.consumer_connections,
        )
        dispatch.answers(
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            GetProducerConnectionListRequest,
            self.producer_connections,
        )
        dispatch.answers(RequestCode.GET_ALL_PRODUCER_INFO, None, self.all_producers)

    def consumer_ids(self, _request: Request, header: GetConsumerListByGroupRequest) -> Answer:
        """The client ids of a group, which its members share the queues out by."""
        client_ids = self._consumers.client_ids(header.consumer_group)
        if not client_ids:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {header.consumer_group}")
        return Answer(body=ConsumerListByGroup(client_ids).build())

    def consumer_connections(self, _request: Request, header: GetConsumerConnectionListRequest) -> Answer:
        """A group's connections and subscriptions."""
        group = self._consumers.group(header.consumer_group)
        if group is None:
            raise RequestRefused(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{header.consumer_group}] not online"
            )
        body = ConsumerConnection(
            connections=[_connection(client) for client in group.members.values()],
            subscriptions=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return Answer(body=body.build())

    def producer_connections(self, _request: Request, header: GetProducerConnectionListRequest) -> Answer:
        """A producer group's connections."""
        members = self._producers.members(header.producer_group)
        if not members:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{header.producer_group}] not exist")
        return Answer(body=ProducerConnection([_connection(client) for client in members]).build())

    def all_producers(self, _request: Request, _header: None) -> Answer:
        """The connections of every producer group."""
        table = {
            group: [_producer_info(client) for client in self._producers.members(group)]
            for group in self._producers.groups()
        }
        return Answer(body=ProducerTableInfo(table).build())


def _connection(client: Client) -> Connection:
    return Connection(
        client_id=client.client_id,
        client_addr=client.address,
        language=language_name(client.language),
        version=client.version,
    )


def _producer_info(client: Client) -> ProducerInfo:
    return ProducerInfo(
        client_id=client.client_id,
        remote_ip=client.channel.remote[0],
        language=language_name(client.language),
        version=client.version,
        last_update_timestamp=client.last_heartbeat_ms,
    )
