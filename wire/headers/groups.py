"""Headers of clients in groups: heartbeats, membership, connections."""

from __future__ import annotations

from wire.headers.declare import Header, field


class HeartbeatResponse(Header):
    """What a 5.x client wants to know about its heartbeat (34); upstream has no class for it."""

    is_support_heart_beat_v2: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClientRequest(Header):
    """A client leaves its groups (35)."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequest(Header):
    """The clients of a consumer group (38)."""

    consumer_group: str


class NotifyConsumerIdsChangedRequest(Header):
    """The membership of a group has changed: rebalance (40, one-way to clients)."""

    consumer_group: str


class GetConsumerConnectionListRequest(Header):
    """The connections of a consumer group (203)."""

    consumer_group: str


class GetProducerConnectionListRequest(Header):
    """The connections of a producer group (204)."""

    producer_group: str


class GetAllProducerInfoRequest(Header):
    """No fields (328)."""


class GetSubscriptionGroupConfigRequest(Header):
    """The configuration of one group (352)."""

    group: str


class DeleteSubscriptionGroupRequest(Header):
    """Delete a group (207). 4.9 says ``removeOffset`` where 5.x says ``cleanOffset``."""

    group_name: str
    clean_offset: bool = False
    remove_offset: bool = False
