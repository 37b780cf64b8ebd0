"""Headers for pulling messages from a queue and for queries; the messages are the body (``wire.message.record``)."""

from __future__ import annotations

from typing import Final

from wire.headers.declare import Header, Int32, Int64, field

BULK_READER: Final = 1_281_450_318
"""The ``requestSource`` of a client that reads whole ranges and takes large answers. Never change this number.

Only this gateway knows the number: upstream's numbers are small, and upstream treats an unknown number as an ordinary
client.
"""


class PullMessageRequest(Header):
    """Ask for messages of one queue from an offset on (request codes 11 and 361)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32  # of ``PullFlag``
    commit_offset: Int64  # the group's progress, taken when the flag says so
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None  # −1 or absent a client, ``BULK_READER``, others proxies
    proxy_forward_client_id: str | None = field(name="proxyFrowardClientId", default=None)
    lite_topic: str | None = None


class PullMessageResponse(Header):
    """The offset at which to read on, whatever code the answer has (11, 361)."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryMessageRequest(Header):
    """Ask for messages by key (12). ``unique_key_query`` is true if the key is the producer's message id."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None
    last_key: str | None = None
    unique_key_query: bool = field(name="_UNIQUE_KEY_QUERY", default=False)


class QueryMessageResponse(Header):
    """The last position that the index has reached (12)."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequest(Header):
    """Ask for the message at an offset of the commit log (33)."""

    topic: str | None = None
    offset: Int64
    hidden_too: bool | None = field(name="gateway.hiddenToo", default=None)
    """True if a replica of a gateway asks: a message that is on disk is shown before consumers see it."""


class QueryConsumeQueueRequest(Header):
    """Ask for raw entries of a consume queue (321)."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
