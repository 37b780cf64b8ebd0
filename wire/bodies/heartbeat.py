"""The heartbeat: the groups of a client, and the subscriptions of its consumer groups.

Clients send a heartbeat every 30 s to every broker of their routes. Since 5.0 a client may leave out the subscriptions
if the broker has seen the same ``fingerprint`` before (``without_sub``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from wire.bodies.consume_kinds import ConsumeFromWhere as ConsumeFromWhere
from wire.bodies.consume_kinds import ConsumeType as ConsumeType
from wire.bodies.consume_kinds import MessageModel as MessageModel
from wire.bodies.declare import JsonObject, Members, Ordinals, RequestBody, field
from wire.bodies.subscriptions import SubscriptionData as SubscriptionData


class ConsumerData(JsonObject):
    """One consumer group of a client. Unknown names from newer clients are kept."""

    group: str = field(name="groupName")
    consume_type: Annotated[str, Ordinals(ConsumeType)] = ConsumeType.CONSUME_PASSIVELY.value
    message_model: Annotated[str, Ordinals(MessageModel)] = MessageModel.CLUSTERING.value
    consume_from_where: Annotated[str, Ordinals(ConsumeFromWhere)] = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    unit_mode: bool = False
    subscriptions: Sequence[SubscriptionData] = field(default=(), name="subscriptionDataSet")


class HeartbeatData(RequestBody):
    """The groups of a client; ``producers`` are group names."""

    client_id: str = field(name="clientID")
    producers: Annotated[Sequence[str], Members("groupName")] = field(default=(), name="producerDataSet")
    consumers: Sequence[ConsumerData] = field(default=(), name="consumerDataSet")
    fingerprint: int = field(default=0, name="heartbeatFingerprint")
    without_sub: bool = False
