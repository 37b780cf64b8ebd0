"""Lists of connected clients for tools and clients, and the check of a subscription before a client starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from wire.bodies.declare import Body, JsonObject, ListRequestBody, Ordinals, SmallRequestBody, field
from wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from wire.bodies.message_queue import MessageQueue as MessageQueue
from wire.bodies.subscriptions import SubscriptionData


class ConsumerListByGroup(Body):
    """The client ids of a group (upstream ``GetConsumerListByGroupResponseBody``)."""

    client_ids: Sequence[str] = field(default=(), name="consumerIdList")


class CheckClientRequest(SmallRequestBody):
    """A subscription that a client wants to have checked (upstream ``CheckClientRequestBody``)."""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription: SubscriptionData | None = field(default=None, name="subscriptionData")


class Connection(JsonObject):
    """One connected client; ``language`` is a name, ``version`` a number."""

    client_id: str
    client_addr: str
    language: str
    version: int


class ConsumerConnection(Body):
    """The members of a consumer group, and the group's subscriptions."""

    connections: Sequence[Connection] = field(default=(), name="connectionSet")
    subscriptions: Mapping[str, SubscriptionData] = field(default_factory=dict, name="subscriptionTable")
    consume_type: Annotated[str, Ordinals(ConsumeType)] = ConsumeType.CONSUME_PASSIVELY.value
    message_model: Annotated[str, Ordinals(MessageModel)] = MessageModel.CLUSTERING.value
    consume_from_where: Annotated[str, Ordinals(ConsumeFromWhere)] = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value


class ProducerConnection(Body):
    """The members of a producer group."""

    connections: Sequence[Connection] = field(default=(), name="connectionSet")


class ProducerInfo(JsonObject):
    """One producer of a broker; the timestamp is the time of its last heartbeat in milliseconds."""

    client_id: str
    remote_ip: str = field(name="remoteIP")
    language: str
    version: int
    last_update_timestamp: int


class ProducerTableInfo(Body):
    """All producers of a broker, by group."""

    groups: Mapping[str, Sequence[ProducerInfo]] = field(default_factory=dict, name="data")


class GetConsumerStatusBody(ListRequestBody):
    """The offsets of a group's clients.

    A client answers a broker with ``message_queue_table``. The broker answers a tool with ``consumer_table``: client id
    → queue → offset.
    """

    message_queue_table: Mapping[MessageQueue, int] = field(default_factory=dict)
    consumer_table: Mapping[str, Mapping[MessageQueue, int]] = field(default_factory=dict)
