"""Headers of looking messages up by key, by id and by place."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64, field


class QueryMessageRequest(Header):
    """Messages by key (12). ``unique_key_query`` says that the key is the producer's message id."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None
    last_key: str | None = None
    unique_key_query: bool = field(name="_UNIQUE_KEY_QUERY", default=False)


class QueryMessageResponse(Header):
    """How far the index reaches (12)."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequest(Header):
    """The message at an offset of the commit log (33)."""

    topic: str | None = None
    offset: Int64


class QueryConsumeQueueRequest(Header):
    """Raw entries of a consume queue (321)."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
