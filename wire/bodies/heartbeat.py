"""The heartbeat: which groups a client belongs to, and what its consumer groups subscribe to.

Clients send it every 30 s to every broker of their routes. Since 5.0 a client may leave the subscriptions
out when the broker has seen the same ``fingerprint`` before (``without_sub``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from wire.bodies.declare import Body, JsonObject
from wire.bodies.subscriptions import SubscriptionData as SubscriptionData


class ConsumeType(StrEnum):
    """Who moves messages: the consumer pulls, a push consumer pulls for the application, or pop."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether every consumer of a group gets every message, or they share them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group without an offset begins."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


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
