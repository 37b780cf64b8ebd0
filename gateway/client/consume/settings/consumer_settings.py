"""Settings that push and lite pull consumers share; names and defaults are the Java client's."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from gateway.client.allocation import AllocationStrategy, Averagely
from gateway.client.connect.settings import ClientSettings, TracedSettings, limited
from gateway.client.consume.process_queue import CacheLimits
from gateway.client.consume.settings.consume_positions import ConsumeFrom
from gateway.client.errors import ConfigurationError
from wire.bodies.consume_kinds import MessageModel as MessageModel

DEFAULT_DIRECTORY: Final = "~/.rocketmq_offsets"
"""The directory in which the Java client keeps offsets (``rocketmq.client.localOffsetStoreDir``)."""

_AVERAGELY: Final = Averagely()


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
    """With BROADCASTING: the directory for offsets, in files that a Java consumer can read, too."""

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
