"""Settings of consumers, on top of those of every client; names and defaults are the Java client's.

PushSettings(namesrv="mq:9876", consume_from_where=ConsumeFrom.FIRST_OFFSET)
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.client.allocation import AllocationStrategy, Averagely
from gateway.client.consume_positions import ConsumeFrom
from gateway.client.errors import ConfigurationError
from gateway.client.process_queue import CacheLimits
from gateway.client.settings import ClientSettings, TracedSettings, limited
from wire.bodies.consume_kinds import MessageModel as _WireModel

DEFAULT_DIRECTORY: Final = "~/.rocketmq_offsets"
"""Where the Java client keeps offsets (``rocketmq.client.localOffsetStoreDir``)."""


class MessageModel(StrEnum):
    """Whether the members of a group share the messages or each of them gets all."""

    CLUSTERING = _WireModel.CLUSTERING.value
    """Each message goes to one member."""
    BROADCASTING = _WireModel.BROADCASTING.value
    """Each message goes to every member; nothing is delivered again, and each keeps its own offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(TracedSettings):
    """What consumers that read queues have in common."""

    message_model: MessageModel = MessageModel.CLUSTERING
    """Whether the members of the group share messages or each of them gets all."""
    consume_from_where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    """Where a group without an offset begins."""
    consume_timestamp: datetime.datetime | float | None = None
    """With ``ConsumeFrom.TIMESTAMP``: an aware datetime or epoch seconds; None: half an hour before the start."""
    allocation: AllocationStrategy = field(default_factory=Averagely)
    """How the group shares queues; the same in all members."""
    rebalance_interval: float = limited(20.0, least=0.1, most=3600.0)
    """Seconds between looks at who is in the group; a change that a broker tells of is acted upon at once."""
    pull_batch_size: int = limited(32, least=1, most=1024)
    """Messages of one pull; brokers give 32 at most unless set otherwise (``maxTransferCountOnMessageInMemory``)."""
    pull_threshold_for_queue: int = limited(1000, least=1, most=65_535)
    """Messages of one queue that may be cached before pulling pauses."""
    pull_threshold_size_for_queue: int = limited(100, least=1, most=1024)
    """MiB of one queue that may be cached before pulling pauses."""
    pull_threshold_for_topic: int = limited(-1, least=-1, most=6_553_500)
    """Messages of one topic, shared evenly among its queues here; −1: no limit of its own."""
    pull_threshold_size_for_topic: int = limited(-1, least=-1, most=102_400)
    """MiB of one topic, as before."""
    pull_time_delay_when_exception: float = limited(3.0, least=0.01, most=600.0)
    """Seconds before a failed pull is tried again."""
    local_offset_dir: str = DEFAULT_DIRECTORY
    """With BROADCASTING: where offsets are kept, in files a Java consumer reads as well."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        if not isinstance(self.consume_from_where, ConsumeFrom):
            raise ConfigurationError("consume_from_where", self.consume_from_where, "a member of ConsumeFrom")
        if not isinstance(self.message_model, MessageModel):
            raise ConfigurationError("message_model", self.message_model, "a member of MessageModel")
        if not callable(self.allocation):
            raise ConfigurationError("allocation", self.allocation, "a strategy, as Averagely()")

    def cache_limits(self, queues_of_topic: int, *, span: int | None) -> CacheLimits:
        """What one queue may cache while this client has so many queues of its topic."""
        messages, mib = self.pull_threshold_for_queue, self.pull_threshold_size_for_queue
        share = max(1, queues_of_topic)
        if self.pull_threshold_for_topic != -1:
            messages = max(1, self.pull_threshold_for_topic // share)
        if self.pull_threshold_size_for_topic != -1:
            mib = max(1, self.pull_threshold_size_for_topic // share)
        return CacheLimits(messages=messages, mib=mib, span=span)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings(ConsumerSettings):
    """Settings of ``PushConsumer``; defaults are those of ``DefaultMQPushConsumer``."""

    consume_workers: int = limited(20, least=1, most=1000)
    """Calls of the listener at once: threads for a plain function, tasks for an ``async def``."""
    consume_message_batch_max_size: int = limited(32, least=1, most=1024)
    """Messages a batch listener gets at most; a listener for single messages always gets one."""
    consume_concurrently_max_span: int = limited(2000, least=1, most=65_535)
    """How far apart the offsets of cached messages of one queue may be before pulling pauses."""
    max_reconsume_times: int = limited(-1, least=-1, most=2**31 - 1)
    """Redeliveries before a message becomes a dead letter; −1: 16, for an orderly consumer without end."""
    consume_timeout: float = limited(900.0, least=0.1, most=10_800.0)
    """Seconds after which messages are sent back though their listener has not returned; in order they stay, and it is
    logged."""
    suspend_current_queue_time: float = limited(1.0, least=0.01, most=30.0)
    """Seconds an orderly consumer leaves a queue alone after a failure."""
    pull_interval: float = limited(0.0, least=0.0, most=65.535)
    """Seconds between two pulls of a queue."""
    broker_suspend_max_time: float = limited(15.0, least=0.1, most=60.0)
    """Seconds a broker holds a pull that finds nothing."""
    consumer_timeout_when_suspend: float = limited(30.0, least=0.2, most=120.0)
    """Seconds after which a pull without answer counts as lost; more than the broker may hold it."""

    client_rebalance: bool = True
    """Whether members share queues among themselves. False: the broker says what each member consumes, and whether it
    pulls queues or pops messages (``mqadmin setConsumeMode``); an orderly or broadcasting consumer does not ask it."""
    pop_invisible_time: float = limited(60.0, least=5.0, most=300.0)
    """Seconds for which popped messages are hidden from others: what is not consumed by then comes again."""
    pop_batch_nums: int = limited(32, least=1, most=32)
    """Messages of one pop."""
    pop_threshold_for_queue: int = limited(96, least=1, most=65_535)
    """Popped messages of one queue, or of all of a broker's, that may wait to be consumed before popping pauses."""

    def __post_init__(self) -> None:
        ConsumerSettings.__post_init__(self)
        _check_hold(self.consumer_timeout_when_suspend, self.broker_suspend_max_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullSettings(ConsumerSettings):
    """Settings of ``LitePullConsumer``; defaults are those of ``DefaultLitePullConsumer``."""

    auto_commit: bool = True
    """Whether offsets of finished batches are committed without being asked to."""
    auto_commit_interval: float = limited(5.0, least=0.1, most=3600.0)
    """Seconds between two automatic commits."""
    pull_batch_size: int = limited(10, least=1, most=1024)
    """Messages of one pull, and of the batch that ``poll`` returns."""
    pull_threshold_for_all: int = limited(10_000, least=1, most=10_000_000)
    """Messages of all queues that may be cached."""
    consume_max_span: int = limited(2000, least=1, most=65_535)
    """How far apart the offsets of cached messages of one queue may be."""
    broker_suspend_max_time: float = limited(20.0, least=0.1, most=60.0)
    """Seconds a broker holds a pull that finds nothing."""
    consumer_timeout_when_suspend: float = limited(30.0, least=0.2, most=120.0)
    """Seconds after which a pull without answer counts as lost; more than the broker may hold it."""
    poll_timeout: float = limited(5.0, least=0.0, most=3600.0)
    """Seconds ``poll`` waits when it is not told."""

    def __post_init__(self) -> None:
        ConsumerSettings.__post_init__(self)
        _check_hold(self.consumer_timeout_when_suspend, self.broker_suspend_max_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleSettings(ClientSettings):
    """Settings of ``SimpleConsumer``."""

    invisible_time: float = limited(60.0, least=1.0, most=43_200.0)
    """Seconds for which received messages are hidden from others when ``receive`` is not told."""
    poll_time: float = limited(15.0, least=0.0, most=60.0)
    """Seconds a broker holds a ``receive`` that finds nothing, when it is not told."""
    consume_from_where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    """Where a group without an offset begins: LAST_OFFSET or FIRST_OFFSET."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        if self.consume_from_where not in (ConsumeFrom.LAST_OFFSET, ConsumeFrom.FIRST_OFFSET):
            raise ConfigurationError(
                "consume_from_where", self.consume_from_where, "LAST_OFFSET or FIRST_OFFSET: pop knows no others"
            )


def _check_hold(waits: float, holds: float) -> None:
    if waits <= holds:
        raise ConfigurationError("consumer_timeout_when_suspend", waits, f"more than broker_suspend_max_time, {holds}")
