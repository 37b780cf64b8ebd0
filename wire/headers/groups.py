"""Headers about groups: heartbeats, members, connections, the table of groups, and their permission to read topics."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, field


class HeartbeatResponse(Header):
    """The answer to a 5.x client's heartbeat (34); upstream has no class for these fields."""

    is_support_heart_beat_v2: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClientRequest(Header):
    """Let a client leave its groups (35)."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequest(Header):
    """Ask for the clients of a consumer group (38)."""

    consumer_group: str


class NotifyConsumerIdsChangedRequest(Header):
    """Notify a client that the members of a group changed, so that the client rebalances (40, one-way to clients)."""

    consumer_group: str


class GetConsumerConnectionListRequest(Header):
    """Ask for the connections of a consumer group (203)."""

    consumer_group: str


class GetProducerConnectionListRequest(Header):
    """Ask for the connections of a producer group (204)."""

    producer_group: str


class GetAllProducerInfoRequest(Header):
    """Ask for all producers of a broker; the header has no fields (328)."""


class GetSubscriptionGroupConfigRequest(Header):
    """Ask for the configuration of one group (352)."""

    group: str


class DeleteSubscriptionGroupRequest(Header):
    """Delete a group (207). The field is ``removeOffset`` in 4.9 and ``cleanOffset`` in 5.x."""

    group_name: str
    clean_offset: bool = False
    remove_offset: bool = False


class GetAllSubscriptionGroupRequest(Header):
    """Ask for all groups, or since 5.5 for one page of them (201)."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponse(Header):
    """The number of all groups, if the request asked for a page (201)."""

    total_group_num: Int32 | None = None


class UpdateGroupForbiddenRequest(Header):
    """Forbid a group to read a topic, or ask whether the group may read the topic (353)."""

    group: str
    topic: str
    readable: bool | None = None
