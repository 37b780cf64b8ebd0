"""Lite topics in bodies (5.5): what clients subscribe to, and what tools are told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from wire.bodies.declare import Body, JsonObject, Ordinals, RequestBody, field
from wire.bodies.tools.statistics import OffsetWrapper, TopicOffset


class SubscriptionAction(StrEnum):
    """What a client asks for. The order is upstream's: a number may stand for a name."""

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetKind(StrEnum):
    """How the ``value`` of an option is meant."""

    POLICY = "POLICY"
    OFFSET = "OFFSET"
    TAIL_N = "TAIL_N"
    TIMESTAMP = "TIMESTAMP"


POLICY_LAST, POLICY_MIN, POLICY_MAX = 0, 1, 2
"""Values of a POLICY: where the group is, the first message, the end."""


class OffsetOption(JsonObject):
    """Where a group goes on in a lite topic that it subscribes to."""

    type: Annotated[str, Ordinals(OffsetKind)] = OffsetKind.POLICY.value
    value: int = POLICY_LAST


class LiteSubscriptionChange(JsonObject):
    """One client's wish (upstream ``LiteSubscriptionDTO``)."""

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
    """The lite topics of a broker in numbers; ``topic_meta`` is the minutes to live of each parent."""

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
    """One parent; ``ttl`` in minutes, ``lmq_num`` the light queues of the whole broker."""

    topic: str
    ttl: int
    groups: Sequence[str]
    lmq_num: int
    lite_topic_count: int


class ClientGroup(JsonObject):
    """A client and the group it subscribes for."""

    client_id: str
    group: str


class LiteTopicInfo(Body):
    """One lite topic and who subscribes to it."""

    parent_topic: str
    lite_topic: str
    subscriber: Sequence[ClientGroup]
    topic_offset: TopicOffset
    sharding_to_broker: bool = True


class LiteClientInfo(Body):
    """What a client subscribes to, as names of light queues.

    ``last_access_time`` is of its last pop (−1: none), ``last_consume_time`` of its last messages (0: none), in ms.
    """

    parent_topic: str
    group: str
    client_id: str
    last_access_time: int
    last_consume_time: int
    lite_topic_count: int
    lite_topic_set: Sequence[str] | None = None


class LiteLag(JsonObject):
    """What a group has not consumed of a lite topic; the time is that of its first message, −1 when unknown."""

    lite_topic: str
    lag_count: int
    earliest_unconsumed_timestamp: int


class LiteGroupInfo(Body):
    """How far a group is behind, in one lite topic or in those where it is farthest behind."""

    group: str
    parent_topic: str
    earliest_unconsumed_timestamp: int
    total_lag_count: int
    lite_topic: str | None = None
    lite_topic_offset_wrapper: OffsetWrapper | None = None
    lag_count_top_k: Sequence[LiteLag] | None = field(default=None, name="lagCountTopK")
    lag_timestamp_top_k: Sequence[LiteLag] | None = field(default=None, name="lagTimestampTopK")
