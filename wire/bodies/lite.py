"""Lite topics in bodies (5.5): subscriptions of clients, and figures for tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from wire.bodies.declare import Body, JsonObject, Ordinals, RequestBody, field
from wire.bodies.tools.statistics import OffsetWrapper, TopicOffset


class SubscriptionAction(StrEnum):
    """The change that a client asks for. The order is upstream's, because a number may stand for a name."""

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetKind(StrEnum):
    """The meaning of an option's ``value``."""

    POLICY = "POLICY"
    OFFSET = "OFFSET"
    TAIL_N = "TAIL_N"
    TIMESTAMP = "TIMESTAMP"


POLICY_LAST, POLICY_MIN, POLICY_MAX = 0, 1, 2
"""The values of a POLICY: the group's own offset, the first message, or the end."""


class OffsetOption(JsonObject):
    """The place where a group goes on in a lite topic that the group subscribes to."""

    type: Annotated[str, Ordinals(OffsetKind)] = OffsetKind.POLICY.value
    value: int = POLICY_LAST


class LiteSubscriptionChange(JsonObject):
    """One change that a client asks for (upstream ``LiteSubscriptionDTO``)."""

    action: Annotated[str, Ordinals(SubscriptionAction)]
    client_id: str
    group: str
    topic: str
    lite_topic_set: Sequence[str] = ()
    offset_option: OffsetOption | None = None
    version: int = 0


class LiteSubscriptionChanges(RequestBody):
    """The body of LITE_SUBSCRIPTION_CTL."""

    subscription_set: Sequence[LiteSubscriptionChange] = ()


class BrokerLiteInfo(Body):
    """Figures about the lite topics of a broker; ``topic_meta`` is the minutes to live of each parent."""

    store_type: str
    max_lmq_num: int
    current_lmq_num: int
    lite_subscription_count: int
    order_info_count: int
    cq_table_size: int
    offset_table_size: int
    event_map_size: int
    topic_meta: Mapping[str, int]
    group_meta: Mapping[str, Sequence[str]]


class ParentTopicInfo(Body):
    """One parent topic; ``ttl`` is in minutes, ``lmq_num`` counts the light queues of the whole broker."""

    topic: str
    ttl: int
    groups: Sequence[str]
    lmq_num: int
    lite_topic_count: int


class ClientGroup(JsonObject):
    """A client and the group for which the client subscribes."""

    client_id: str
    group: str


class LiteTopicInfo(Body):
    """One lite topic and its subscribers."""

    parent_topic: str
    lite_topic: str
    subscriber: Sequence[ClientGroup]
    topic_offset: TopicOffset
    sharding_to_broker: bool = True


class LiteClientInfo(Body):
    """The subscriptions of a client, as names of light queues.

    ``last_access_time`` is the time of its last pop (−1: none), ``last_consume_time`` the time of its last messages (0:
    none), both in milliseconds.
    """

    parent_topic: str
    group: str
    client_id: str
    last_access_time: int
    last_consume_time: int
    lite_topic_count: int
    lite_topic_set: Sequence[str] | None = None


class LiteLag(JsonObject):
    """The messages of a lite topic that a group has not consumed; the time is that of the first one, −1 if unknown."""

    lite_topic: str
    lag_count: int
    earliest_unconsumed_timestamp: int


class LiteGroupInfo(Body):
    """The lag of a group in one lite topic, or in the lite topics with the largest lags."""

    group: str
    parent_topic: str
    earliest_unconsumed_timestamp: int
    total_lag_count: int
    lite_topic: str | None = None
    lite_topic_offset_wrapper: OffsetWrapper | None = None
    lag_count_top_k: Sequence[LiteLag] | None = field(default=None, name="lagCountTopK")
    lag_timestamp_top_k: Sequence[LiteLag] | None = field(default=None, name="lagTimestampTopK")
