"""Headers of offsets: what a group has consumed, what a queue holds, and setting groups back."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class QueryConsumerOffsetRequest(Header):
    """How far a group has consumed a queue (14)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponse(Header):
    """The next offset to consume (14)."""

    offset: Int64


class UpdateConsumerOffsetRequest(Header):
    """A group has consumed a queue up to here (15)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetRequest(Header):
    """The offset stored at a time (29); ``boundary_type`` is ``LOWER`` or ``UPPER``, in any case."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    lite_topic: str | None = None


class SearchOffsetResponse(Header):
    """The offset found (29)."""

    offset: Int64


class GetMaxOffsetRequest(Header):
    """The offset the next message will get (30)."""

    topic: str
    queue_id: Int32
    committed: bool = True


class GetMaxOffsetResponse(Header):
    """The offset after the last message (30)."""

    offset: Int64


class GetMinOffsetRequest(Header):
    """The first offset still stored (31)."""

    topic: str
    queue_id: Int32


class GetMinOffsetResponse(Header):
    """The first offset still stored (31)."""

    offset: Int64


class GetEarliestMsgStoretimeRequest(Header):
    """When the first message of a queue was stored (32)."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponse(Header):
    """Epoch milliseconds, −1 when nothing is stored (32)."""

    timestamp: Int64


class ResetOffsetRequest(Header):
    """Set a group back to a time or an offset (222 to a broker, 220 from it to clients)."""

    group: str
    topic: str
    queue_id: Int32 = -1
    offset: Int64 | None = None
    timestamp: Int64 = 0
    is_force: bool = False


class GetConsumerStatusRequest(Header):
    """The offsets that clients hold in memory (223 to a broker, 221 from it to a client)."""

    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffsetRequest(Header):
    """Copy the offsets of a group to another (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffsetRequest(Header):
    """The lowest offsets among groups of a topic (308)."""

    filter_groups: str | None = None
    compare_group: str
    topic: str
