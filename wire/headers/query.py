"""Headers for finding messages by key, by id and by position."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64, field


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


class QueryConsumeQueueRequest(Header):
    """Ask for raw entries of a consume queue (321)."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
