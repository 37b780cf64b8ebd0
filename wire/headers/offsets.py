"""Headers for offsets: the progress of groups, the bounds of queues, and resets of groups."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class QueryConsumerOffsetRequest(Header):
    """Ask up to which offset a group has consumed a queue (14)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponse(Header):
    """The next offset to consume (14)."""

    offset: Int64


class UpdateConsumerOffsetRequest(Header):
    """Report up to which offset a group has consumed a queue (15)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetRequest(Header):
    """Ask for the offset stored at a time (29); ``boundary_type`` is ``LOWER`` or ``UPPER``, in any case."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    lite_topic: str | None = None


class SearchOffsetResponse(Header):
    """The offset that was found (29)."""

    offset: Int64


class GetMaxOffsetRequest(Header):
    """Ask for the offset that the next message will get (30)."""

    topic: str
    queue_id: Int32
    committed: bool = True


class GetMaxOffsetResponse(Header):
    """The offset after the last message (30)."""

    offset: Int64


class GetMinOffsetRequest(Header):
    """Ask for the first offset that is still stored (31)."""

    topic: str
    queue_id: Int32


class GetMinOffsetResponse(Header):
    """The first offset that is still stored (31)."""

    offset: Int64


class GetEarliestMsgStoretimeRequest(Header):
    """Ask for the store time of a queue's first message (32)."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponse(Header):
    """The store time in epoch milliseconds, −1 if nothing is stored (32)."""

    timestamp: Int64


class ResetOffsetRequest(Header):
    """Reset a group to a time or an offset (222 to a broker, 220 from the broker to clients)."""

    group: str
    topic: str
    queue_id: Int32 = -1
    offset: Int64 | None = None
    timestamp: Int64 = 0
    is_force: bool = False


class GetConsumerStatusRequest(Header):
    """Ask for the offsets that clients hold in memory (223 to a broker, 221 from the broker to a client)."""

    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffsetRequest(Header):
    """Copy the offsets of one group to another group (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffsetRequest(Header):
    """Ask for the lowest offsets among the groups of a topic (308)."""

    filter_groups: str | None = None
    compare_group: str
    topic: str
