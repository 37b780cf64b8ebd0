"""Figures for tools: positions of queues and groups, units, times, replicas, and tables of names and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wire.bodies.declare import Body, JsonObject, field
from wire.bodies.message_queue import MessageQueue as MessageQueue
from wire.bodies.subscriptions import SubscriptionData
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

    ``applied_end`` is the log offset up to which offsets from the log (of pops) are in the table; None if the broker
    does not say, as Apache RocketMQ does not. Upstream: ``ConsumerOffsetSerializeWrapper``.
    """

    offset_table: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    applied_end: int | None = field(default=None, name="gatewayAppliedEnd")


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


class ReplicaConnection(JsonObject):
    """One replica as its master sees it; the offsets are offsets of the commit log."""

    addr: str
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class CopyingState(JsonObject):
    """A replica as it sees itself (upstream ``HAClientRuntimeInfo``); times are in epoch milliseconds."""

    master_addr: str = ""
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    max_offset: int = 0
    master_flush_offset: int = 0


class ReplicationState(Body):
    """A master and its replicas, or a replica (upstream ``HARuntimeInfo``)."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    connections: Sequence[ReplicaConnection] = field(default=(), name="haConnectionInfo")
    copying: CopyingState | None = field(default=None, name="haClientRuntimeInfo")


class QueueTimeSpan(JsonObject):
    """The times of one queue in epoch milliseconds, −1 if there is no message; the delay is in milliseconds.

    The texts are the same times as ``yyyy-MM-dd#HH:mm:ss:SSS``, for people. Java clients make the texts again.
    """

    message_queue: MessageQueue
    min_time: int = field(name="minTimeStamp")
    max_time: int = field(name="maxTimeStamp")
    consume_time: int = field(name="consumeTimeStamp")
    delay_time: int = 0
    min_time_text: str | None = field(default=None, name="minTimeStampStr")
    max_time_text: str | None = field(default=None, name="maxTimeStampStr")
    consume_time_text: str | None = field(default=None, name="consumeTimeStampStr")


class ConsumeTimeSpans(Body):
    """The queues of a topic (upstream ``QueryConsumeTimeSpanBody``)."""

    spans: Sequence[QueueTimeSpan] = field(default=(), name="consumeTimeSpanSet")


class QueueUnit(JsonObject):
    """One unit: the place of its message, and whether a group's filter accepts the message.

    ``text`` says why the group's filter could not be applied.
    """

    physic_offset: int
    physic_size: int
    tags_code: int
    extend_data_json: str | None = None
    bit_map: str | None = None
    is_accepted: bool = field(default=False, name="eval")
    text: str | None = field(default=None, name="msg")


class QueueUnits(Body):
    """The units of a queue and the queue's bounds (upstream ``QueryConsumeQueueResponseBody``).

    ``filter_data`` describes the group's property filter, or says why there is none.
    """

    units: Sequence[QueueUnit] = field(default=(), name="queueData")
    min_queue_index: int = 0
    max_queue_index: int = 0
    subscription: SubscriptionData | None = field(default=None, name="subscriptionData")
    filter_data: str | None = None


class KVTable(Body):
    """A table of names and values: for tools to print, and for a namespace of a name server."""

    table: Mapping[str, str] = field(default_factory=dict)
