"""Settings of consumers, with names and defaults of the Java client."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.client.allocation import AllocationStrategy, Averagely
from gateway.client.connect.settings import ClientSettings, TracedSettings, limited
from gateway.client.consume.process_queue import CacheLimits
from gateway.client.errors import ConfigurationError
from wire.bodies.consume_kinds import ConsumeFromWhere
from wire.bodies.consume_kinds import MessageModel as MessageModel
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

DEFAULT_DIRECTORY: Final = "~/.rocketmq_offsets"
"""The directory in which the Java client keeps offsets (``rocketmq.client.localOffsetStoreDir``)."""

_AVERAGELY: Final = Averagely()

DEFAULT_TIMESTAMP_AGE_S: Final = 1800.0
"""Seconds before now at which ``ConsumeFrom.TIMESTAMP`` starts if no time is given, as upstream."""


class ConsumeFrom(StrEnum):
    """The start of a group without an offset. Names and meaning are those of Java's ``ConsumeFromWhere``."""

    LAST_OFFSET = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    """The end of the queue: only messages that are stored from now on."""
    FIRST_OFFSET = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET.value
    """The first message that is still stored."""
    TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP.value
    """The first message stored at ``consume_timestamp`` or later."""


def start_of(topic: str, consume_from: ConsumeFrom) -> ConsumeFrom:
    """Return the start of a group in a queue for which it has no offset (upstream ``computePullFromWhere``).

    If the first message of a queue is still in memory, a broker of 5.x answers "0" instead of "not stored". A new group
    on a young topic then starts at the first message, whatever the setting is. Java clients do the same.

    A retry topic is read from its first message, because it holds only messages that failed in this group. A Java group
    that starts at a time skips messages that its retry topic already has.
    """
    return ConsumeFrom.FIRST_OFFSET if topic.startswith(RETRY_TOPIC_PREFIX) else consume_from


def timestamp_ms_of(when: datetime.datetime | float | None, now_ms: int) -> int:
    """Return the epoch milliseconds of an aware datetime or of epoch seconds; for None, half an hour ago.

    :raises ConfigurationError: a datetime without a time zone, or a time before 1970.
    """
    if when is None:
        return now_ms - int(DEFAULT_TIMESTAMP_AGE_S * 1000)
    if isinstance(when, datetime.datetime):
        if when.tzinfo is None:
            raise ConfigurationError("consume_timestamp", when, "a datetime with a time zone, or epoch seconds")
        when = when.timestamp()
    if not isinstance(when, int | float) or when < 0:
        raise ConfigurationError("consume_timestamp", when, "an aware datetime, or epoch seconds of 0 or more")
    return int(when * 1000)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ConsumerSettings(TracedSettings):
    """Settings that all consumers of queues share."""

    message_model: MessageModel = MessageModel.CLUSTERING
    """CLUSTERING: the members of the group share the messages; BROADCASTING: each member gets all messages."""
    consume_from_where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    """The place at which a group without an offset starts."""
    consume_timestamp: datetime.datetime | float | None = None
    """The start for ``ConsumeFrom.TIMESTAMP``: an aware datetime or epoch seconds; None: half an hour before the start.
    """
    allocation: AllocationStrategy = _AVERAGELY
    """The strategy by which the group shares queues; must be the same in all members."""
    rebalance_interval: float = limited(20.0, least=0.1, most=3600.0)
    """Seconds between checks of who is in the group; a change that a broker reports is handled at once."""
    pull_batch_size: int = limited(32, least=1, most=1024)
    """Messages of one pull; brokers return at most 32 unless set otherwise (``maxTransferCountOnMessageInMemory``)."""
    pull_threshold_for_queue: int = limited(1000, least=1, most=65_535)
    """Messages of one queue that may be cached before pulling pauses."""
    pull_threshold_size_for_queue: int = limited(100, least=1, most=1024)
    """MiB of one queue that may be cached before pulling pauses."""
    pull_threshold_for_topic: int = limited(-1, least=-1, most=6_553_500)
    """Messages of one topic, divided evenly among its queues in this client; −1: no limit for the topic."""
    pull_threshold_size_for_topic: int = limited(-1, least=-1, most=102_400)
    """MiB of one topic, divided evenly among its queues in this client; −1: no limit for the topic."""
    pull_time_delay_when_exception: float = limited(3.0, least=0.01, most=600.0)
    """Seconds before a failed pull is tried again."""
    broker_suspend_max_time: float = limited(15.0, least=0.1, most=60.0)
    """Seconds that a broker holds a pull that finds nothing."""
    consumer_timeout_when_suspend: float = limited(30.0, least=0.2, most=120.0)
    """Seconds after which a pull without an answer counts as lost; must be more than ``broker_suspend_max_time``."""
    local_offset_dir: str = DEFAULT_DIRECTORY
    """The directory for offsets of BROADCASTING, in files that a Java consumer can read, too."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        if not isinstance(self.consume_from_where, ConsumeFrom):
            raise ConfigurationError("consume_from_where", self.consume_from_where, "a member of ConsumeFrom")
        if not isinstance(self.message_model, MessageModel):
            raise ConfigurationError("message_model", self.message_model, "a member of MessageModel")
        if not callable(self.allocation):
            raise ConfigurationError("allocation", self.allocation, "a strategy, as Averagely()")
        waits, holds = self.consumer_timeout_when_suspend, self.broker_suspend_max_time
        if waits <= holds:
            raise ConfigurationError(
                "consumer_timeout_when_suspend", waits, f"more than broker_suspend_max_time, {holds}"
            )

    def cache_limits(self, queues_of_topic: int, *, span: int | None) -> CacheLimits:
        """Return the limits of one queue while this client has ``queues_of_topic`` queues of its topic."""
        messages, mib = self.pull_threshold_for_queue, self.pull_threshold_size_for_queue
        share = max(1, queues_of_topic)
        if self.pull_threshold_for_topic != -1:
            messages = max(1, self.pull_threshold_for_topic // share)
        if self.pull_threshold_size_for_topic != -1:
            mib = max(1, self.pull_threshold_size_for_topic // share)
        return CacheLimits(messages=messages, mib=mib, span=span)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LitePullSettings(ConsumerSettings):
    """Settings of ``LitePullConsumer``; defaults are those of ``DefaultLitePullConsumer``."""

    auto_commit: bool = True
    """True if offsets of finished batches are committed automatically."""
    auto_commit_interval: float = limited(5.0, least=0.1, most=3600.0)
    """Seconds between two automatic commits."""
    pull_batch_size: int = limited(10, least=1, most=1024)
    """Messages of one pull, and at most of the batch that ``poll`` returns."""
    pull_threshold_for_all: int = limited(10_000, least=1, most=10_000_000)
    """Messages of all queues that may be cached before pulling pauses."""
    consume_max_span: int = limited(2000, least=1, most=65_535)
    """The largest distance between the offsets of cached messages of one queue before pulling pauses."""
    broker_suspend_max_time: float = limited(20.0, least=0.1, most=60.0)
    """Seconds that a broker holds a pull that finds nothing."""
    poll_timeout: float = limited(5.0, least=0.0, most=3600.0)
    """Seconds that ``poll`` waits if the call names no timeout."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class PushSettings(ConsumerSettings):
    """Settings of ``PushConsumer``; defaults are those of ``DefaultMQPushConsumer``."""

    consume_workers: int = limited(20, least=1, most=1000)
    """Calls of the listener that run at once: in threads for a plain function, as tasks for an ``async def``."""
    consume_message_batch_max_size: int = limited(32, least=1, most=1024)
    """The most messages in one call of a batch listener; a listener for single messages always gets one."""
    consume_concurrently_max_span: int = limited(2000, least=1, most=65_535)
    """The largest distance between the offsets of cached messages of one queue before pulling pauses."""
    max_reconsume_times: int = limited(-1, least=-1, most=2**31 - 1)
    """Redeliveries before a message becomes a dead letter; −1: 16, or no limit for an orderly consumer."""
    consume_timeout: float = limited(900.0, least=0.1, most=10_800.0)
    """Seconds after which messages are sent back because their listener has not returned. An orderly consumer keeps the
    messages and logs the delay.
    """
    suspend_current_queue_time: float = limited(1.0, least=0.01, most=30.0)
    """Seconds that a queue of an orderly consumer rests after a failure."""
    pull_interval: float = limited(0.0, least=0.0, most=65.535)
    """Seconds between two pulls of a queue."""
    client_rebalance: bool = True
    """True if members share queues among themselves.

    False: the broker decides what each member consumes, and whether the member pulls queues or pops messages
    (``mqadmin setConsumeMode``). An orderly or broadcasting consumer does not ask the broker.
    """
    pop_invisible_time: float = limited(60.0, least=5.0, most=300.0)
    """Seconds for which popped messages are hidden from other members; a message not consumed by then comes again."""
    pop_batch_nums: int = limited(32, least=1, most=32)
    """Messages of one pop."""
    pop_threshold_for_queue: int = limited(96, least=1, most=65_535)
    """Popped messages that may wait to be consumed before popping pauses: of one queue, or of all queues of a broker.
    """


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class SimpleSettings(ClientSettings):
    """Settings of ``SimpleConsumer``."""

    invisible_time: float = limited(60.0, least=1.0, most=43_200.0)
    """Seconds for which received messages are hidden from other members if ``receive`` names no time."""
    poll_time: float = limited(15.0, least=0.0, most=60.0)
    """Seconds that a broker holds a ``receive`` that finds nothing, if the call names no timeout."""
    consume_from_where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    """The place at which a group without an offset starts: LAST_OFFSET or FIRST_OFFSET."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        if self.consume_from_where not in (ConsumeFrom.LAST_OFFSET, ConsumeFrom.FIRST_OFFSET):
            raise ConfigurationError(
                "consume_from_where", self.consume_from_where, "LAST_OFFSET or FIRST_OFFSET: pop knows no others"
            )
