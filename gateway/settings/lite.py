"""Settings of lite topics (5.5)."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.settings.declare import Mark, Range, setting


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LightQueueSettings:
    """Settings of light queues that both the store and the requests need."""

    enable_lmq: bool = setting(
        False, "enableLmq", "Light queues (%LMQ%name) can be pulled, and with enableMultiDispatch be sent to."
    )
    enable_multi_dispatch: bool = setting(
        False, "enableMultiDispatch", "With enableLmq, put messages into the light queues that they name."
    )
    max_lmq_consume_queue_num: int = setting(
        20_000, "maxLmqConsumeQueueNum", "Light queues there may be.", Range(0, 10_000_000), marks=Mark.LIMIT
    )

    @property
    def fills_light_queues(self) -> bool:
        """True if messages are put into the light queues that they name."""
        return self.enable_lmq and self.enable_multi_dispatch


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LiteSettings:
    """The lifetimes of lite topics and of their subscriptions, and their limits."""

    min_lite_ttl_ms: int = setting(
        900_000,
        "minLiteTTl",
        "Time after its last message for which a lite topic stays at least.",
        Range(0, 2_592_000_000, "ms"),
        marks=Mark.LIVE,
    )
    lite_ttl_check_interval_ms: int = setting(
        120_000,
        "liteTtlCheckInterval",
        "Time between two looks for lite topics that stayed long enough (lite.topic.expiration).",
        Range(100, 86_400_000, "ms"),
    )
    lite_subscription_check_interval_ms: int = setting(
        120_000,
        "liteSubscriptionCheckInterval",
        "Time between two looks for subscriptions to lite topics whose client is gone.",
        Range(100, 86_400_000, "ms"),
    )
    lite_subscription_check_timeout_ms: int = setting(
        180_000,
        "liteSubscriptionCheckTimeoutMills",
        "A client that did not tell its lite topics for this long is gone; clients tell them every 30 s.",
        Range(1_000, 86_400_000, "ms"),
        marks=Mark.LIVE,
    )
    max_lite_subscription_count: int = setting(
        100_000,
        "maxLiteSubscriptionCount",
        "Lite topics that clients subscribe to, each counted once for every client.",
        Range(0, 10_000_000),
        marks=Mark.LIMIT | Mark.LIVE,
    )
