"""The heartbeat: which groups a client belongs to, and what its consumer groups subscribe to.

Clients send it every 30 s to every broker of their routes. Since 5.0 a client may leave the subscriptions
out when the broker has seen the same ``fingerprint`` before (``without_sub``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wire.bodies.consume_kinds import ConsumeFromWhere as ConsumeFromWhere
from wire.bodies.consume_kinds import ConsumeType as ConsumeType
from wire.bodies.consume_kinds import MessageModel as MessageModel
from wire.bodies.declare import Body, JsonObject
from wire.bodies.subscriptions import SubscriptionData as SubscriptionData


@dataclass(frozen=True, slots=True)
class ConsumerData(JsonObject):
    """One consumer group of a client. Names that newer clients invent are kept as they are."""

    group: str = field(metadata={"json": "groupName"})
    consume_type: str = field(default=ConsumeType.CONSUME_PASSIVELY.value, metadata={"ordinals": ConsumeType})
    message_model: str = field(default=MessageModel.CLUSTERING.value, metadata={"ordinals": MessageModel})
    consume_from_where: str = field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value, metadata={"ordinals": ConsumeFromWhere}
    )
    unit_mode: bool = False
    subscriptions: Sequence[SubscriptionData] = field(default=(), metadata={"json": "subscriptionDataSet"})


@dataclass(frozen=True, slots=True)
class HeartbeatData(Body):
    """A client's groups; ``producers`` are group names."""

    client_id: str = field(metadata={"json": "clientID"})
    producers: Sequence[str] = field(default=(), metadata={"json": "producerDataSet", "member": "groupName"})
    consumers: Sequence[ConsumerData] = field(default=(), metadata={"json": "consumerDataSet"})
    fingerprint: int = field(default=0, metadata={"json": "heartbeatFingerprint"})
    without_sub: bool = False
