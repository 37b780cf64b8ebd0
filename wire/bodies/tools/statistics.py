"""The positions of queues and groups, for tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wire.bodies.declare import Body, JsonObject, field
from wire.bodies.message_queue import MessageQueue as MessageQueue
from wire.bodies.topics import DataVersion


class TopicOffset(JsonObject):
    """The first and the next offset of a queue, and the store time of its last message (ms, 0 for none)."""

    min_offset: int
    max_offset: int
    last_update_timestamp: int = 0


class TopicStatsTable(Body):
    """The queues of a topic; only 5.x has ``topic_put_tps``."""

    offset_table: Mapping[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0


class OffsetWrapper(JsonObject):
    """The position of a group in a queue; ``last_timestamp`` is the store time of the last consumed message."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body):
    """The positions of a group in its queues, and its rate in messages a second."""

    offset_table: Mapping[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    """The statistics of all groups: a list of maps from a group to its tables."""

    broker_addr: str | None = None
    consume_stats_list: Sequence[Mapping[str, Sequence[ConsumeStats]]] = ()
    total_diff: int = 0
    total_inflight_diff: int = 0


class GroupList(Body):
    """Names of groups."""

    group_list: Sequence[str] = ()


class ResetOffsetBody(Body):
    """The offsets at which the consumers of a group go on, for Java clients."""

    offset_table: Mapping[MessageQueue, int] = field(default_factory=dict)


class QueueOffset(JsonObject):
    """A queue and an offset in it (upstream ``MessageQueueForC``)."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int


class ResetOffsetBodyForC(Body):
    """The offsets at which the consumers of a group go on, as a list, for clients that cannot read objects as keys."""

    offset_table: Sequence[QueueOffset] = ()


class ConsumerOffsetTable(Body):
    """All offsets of a broker: ``topic@group`` → queue → next offset.

    Upstream: ``ConsumerOffsetSerializeWrapper``.
    """

    offset_table: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class CorrectionOffsets(Body):
    """The smallest offsets of other groups, by queue (upstream ``QueryCorrectionOffsetBody``)."""

    correction_offsets: Mapping[int, int] = field(default_factory=dict)


class BrokerStatsItem(JsonObject):
    """A count over a period: the sum, the rate a second, and the average contribution of a call."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    """One statistic over the last minute, hour and day."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)
