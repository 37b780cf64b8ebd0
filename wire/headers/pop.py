"""Headers for pop consumption (5.x). The codes exceed 16 bits, so only JSON headers can carry them."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class PopMessageRequest(Header):
    """Pop messages from any queue of a topic; they stay invisible to other clients for a while (200050)."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    invisible_time: Int64 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    init_mode: Int32 = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageResponse(Header):
    """The facts by which the popped messages are acknowledged: offsets by queue, as text (200050, 200052)."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PeekMessageRequest(Header):
    """Read messages without making them invisible (200052)."""

    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    consumer_group: str


class AckMessageRequest(Header):
    """Acknowledge a popped message (200051)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class ChangeInvisibleTimeRequest(Header):
    """Keep a popped message invisible for another period (200053)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    lite_topic: str | None = None
    suspend: bool = False


class ChangeInvisibleTimeResponse(Header):
    """The new times of a popped message, for its acknowledgement (200053)."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0


class NotificationRequest(Header):
    """Wait until there is something to pop (200054)."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationResponse(Header):
    """The answer whether there is something to pop (200054)."""

    has_msg: bool = False
    polling_full: bool = False


class PollingInfoRequest(Header):
    """Ask how many pops wait for a queue (200055)."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0


class PollingInfoResponse(Header):
    """The number of pops that wait for a queue (200055)."""

    polling_num: Int32 = 0
