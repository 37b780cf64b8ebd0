"""The subscriptions of consumer groups, and the permissions that a broker gives a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wire.bodies.consume_kinds import EXPRESSION_TYPE_SQL92 as EXPRESSION_TYPE_SQL92
from wire.bodies.consume_kinds import EXPRESSION_TYPE_TAG as EXPRESSION_TYPE_TAG
from wire.bodies.declare import Body, ListRequestBody, Rest, SmallRequestBody, field, nothing
from wire.bodies.topics import DataVersion
from wire.message.tags import MATCH_ALL


class SubscriptionData(Body, omit_defaults=True):
    """A group's subscription to one topic; the one with the largest ``sub_version`` (ms) holds."""

    topic: str
    sub_string: str = MATCH_ALL
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str = EXPRESSION_TYPE_TAG
    class_filter_mode: bool = False


_DEFAULT_RETRY_POLICY: Mapping[str, Any] = {"type": "CUSTOMIZED"}


class SubscriptionGroupConfig(SmallRequestBody):
    """The permissions and the retries of a consumer group; ``extra`` keeps members of other versions."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: Mapping[str, Any] = field(default_factory=lambda: _DEFAULT_RETRY_POLICY)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: Sequence[Mapping[str, Any]] | None = None
    attributes: Mapping[str, str] = field(default_factory=nothing)
    extra: Rest = field(default_factory=nothing)


class SubscriptionGroupTable(Body):
    """All groups of a broker (upstream ``SubscriptionGroupWrapper``).

    ``forbidden_table`` is group → topic → bits for what the group may not do there; 4.9 has no such table.
    """

    configs: Mapping[str, SubscriptionGroupConfig] = field(default_factory=dict, name="subscriptionGroupTable")
    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class SubscriptionGroupList(ListRequestBody):
    """The groups that one request creates."""

    configs: Sequence[SubscriptionGroupConfig] = field(name="groupConfigList")


class GroupForbidden(Body):
    """The permission of a group to read a topic."""

    group: str
    topic: str
    readable: bool = True


class QuerySubscriptionAnswer(Body):
    """A group's subscription to one topic (upstream ``QuerySubscriptionResponseBody``)."""

    group: str
    topic: str
    subscription: SubscriptionData | None = field(default=None, name="subscriptionData")
