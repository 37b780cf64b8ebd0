"""Who is connected, as tools and clients ask for it; and the check of a subscription before a client
starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wire.bodies.declare import Body, JsonObject
from wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from wire.bodies.message_queue import MessageQueue as MessageQueue
from wire.bodies.subscriptions import SubscriptionData


@dataclass(frozen=True, slots=True)
class ConsumerListByGroup(Body):
    """The client ids of a group (upstream ``GetConsumerListByGroupResponseBody``)."""

    client_ids: Sequence[str] = field(default=(), metadata={"json": "consumerIdList"})


@dataclass(frozen=True, slots=True)
class CheckClientRequest(Body):
    """A subscription that a client wants checked (upstream ``CheckClientRequestBody``)."""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription: SubscriptionData | None = field(default=None, metadata={"json": "subscriptionData"})


@dataclass(frozen=True, slots=True)
class Connection(JsonObject):
    """One connected client; ``language`` by name, ``version`` by number."""

    client_id: str
    client_addr: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class ConsumerConnection(Body):
    """The members of a consumer group and what it subscribes to."""

    connections: Sequence[Connection] = field(default=(), metadata={"json": "connectionSet"})
    subscriptions: Mapping[str, SubscriptionData] = field(default_factory=dict, metadata={"json": "subscriptionTable"})
    consume_type: str = field(default=ConsumeType.CONSUME_PASSIVELY.value, metadata={"ordinals": ConsumeType})
    message_model: str = field(default=MessageModel.CLUSTERING.value, metadata={"ordinals": MessageModel})
    consume_from_where: str = field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value, metadata={"ordinals": ConsumeFromWhere}
    )


@dataclass(frozen=True, slots=True)
class ProducerConnection(Body):
    """The members of a producer group."""

    connections: Sequence[Connection] = field(default=(), metadata={"json": "connectionSet"})


@dataclass(frozen=True, slots=True)
class ProducerInfo(JsonObject):
    """One producer of a broker; the timestamp is of its last heartbeat, in milliseconds."""

    client_id: str
    remote_ip: str = field(metadata={"json": "remoteIP"})
    language: str
    version: int
    last_update_timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerTableInfo(Body):
    """All producers of a broker by group."""

    groups: Mapping[str, Sequence[ProducerInfo]] = field(default_factory=dict, metadata={"json": "data"})


@dataclass(frozen=True, slots=True)
class GetConsumerStatusBody(Body):
    """Offsets of a group's clients.

    A client answers a broker with ``message_queue_table``, the broker a tool with ``consumer_table``:
    client id → queue → offset.
    """

    message_queue_table: Mapping[MessageQueue, int] = field(default_factory=dict)
    consumer_table: Mapping[str, Mapping[MessageQueue, int]] = field(default_factory=dict)
