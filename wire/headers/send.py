"""Headers for sending, sending back, replying and recalling.

The send request has two forms, one with long names and one with one-letter names. The body, batches and properties are
in ``wire.message``.
"""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64, field, with_letters


class SendMessageRequest(Header):
    """Store a message or a batch of messages (10, 324; with one-letter names: 310, 320, 325).

    The fields stand in the order of the letters ``a`` to ``n``. Never change this order.
    """

    producer_group: str
    topic: str
    default_topic: str  # whose configuration a topic made on the fly inherits, normally TBW102
    default_topic_queue_nums: Int32
    queue_id: Int32  # negative: the broker picks
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None  # as ``wire.message.properties`` reads them
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    broker_name: str | None = field(name="bname", default=None)


ShortSendMessageRequest = with_letters(SendMessageRequest)
"""The send request with one-letter names."""


class SendMessageResponse(Header):
    """The position at which a message was stored (10, 310, 320, 324, 325)."""

    msg_id: str  # the offset message id; of a batch all of them, separated by commas
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = field(name="MSG_REGION", default=None)
    trace_on: bool | None = field(name="TRACE_ON", default=None)


class ReplyMessageRequest(Header):
    """Push a reply to the client that asked (326)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64 = 0


class ConsumerSendMsgBackRequest(Header):
    """Send back a message that could not be consumed, so that the message is delivered again later (36)."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class RecallMessageRequest(Header):
    """Take back a timer message before the message is due (370)."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponse(Header):
    """The message that was taken back (370)."""

    msg_id: str
