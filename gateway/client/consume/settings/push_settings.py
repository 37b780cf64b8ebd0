"""Settings of push consumers, added to those of every consumer, with names and defaults of the Java client."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.connect.settings import limited
from gateway.client.consume.settings.consumer_settings import ConsumerSettings


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
