"""Headers for pulling messages from a queue; the messages are the body (``wire.message.record``)."""

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
