"""Settings of lite pull consumers, added to those of every consumer, with names and defaults of the Java client."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.connect.settings import limited
from gateway.client.consume.settings.consumer_settings import ConsumerSettings


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
