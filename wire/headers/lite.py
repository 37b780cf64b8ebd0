"""Headers of lite topics (5.5)."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class PopLiteMessageRequest(Header):
    """Pop messages of the lite topics to which a client subscribes (200070)."""

    client_id: str | None = None
    consumer_group: str | None = None
    topic: str | None = None
    max_msg_num: Int32 = 0
    invisible_time: Int64 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    attempt_id: str | None = None


class PopLiteMessageResponse(Header):
    """The facts by which the popped messages are acknowledged: offsets by queue, as text (200070)."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class NotifyUnsubscribeLiteRequest(Header):
    """Notify a client that it lost a lite topic (200073)."""

    lite_topic: str | None = None
    consumer_group: str | None = None
    client_id: str | None = None


class GetParentTopicInfoRequest(Header):
    """Ask for the groups and lite topics of a parent topic (200075)."""

    topic: str | None = None


class GetLiteTopicInfoRequest(Header):
    """Ask for the offsets and subscribers of one lite topic (200076)."""

    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfoRequest(Header):
    """Ask for the lite topics of one client (200077)."""

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 0


class GetLiteGroupInfoRequest(Header):
    """Ask for a group's lag on lite topics (200078)."""

    group: str | None = None
    lite_topic: str | None = None
    top_k: Int32 = 0


class TriggerLiteDispatchRequest(Header):
    """Offer the lite topics of a group to its clients once more (200079)."""

    group: str | None = None
    client_id: str | None = None
