"""Settings of pop consumption, and of the queues that the broker itself assigns to clients (5.x clients)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.settings.declare import Mark, Range, setting


class RequestMode(StrEnum):
    """The way in which a group consumes a topic."""

    PULL = "PULL"
    POP = "POP"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PopSettings:
    """Pops, their retries, and assignments."""

    default_message_request_mode: RequestMode = setting(
        RequestMode.PULL,
        "defaultMessageRequestMode",
        "How clients with client rebalance off consume a topic for which no mode was set.",
    )
    default_pop_share_queue_num: int = setting(
        -1,
        "defaultPopShareQueueNum",
        "Other clients that each queue is shared with when it is popped; 0 or less: all of the group.",
        Range(-1, 65_536),
    )
    server_load_balancer_enable: bool = setting(
        True, "serverLoadBalancerEnable", "Share out queues among clients that ask; false: each gets all of them."
    )
    revive_queue_num: int = setting(
        8, "reviveQueueNum", "Queues of the topic in which pops are written down.", Range(1, 998)
    )
    pop_from_retry_probability: int = setting(
        20,
        "popFromRetryProbability",
        "Of 100 pops so many look for retried messages first.",
        Range(0, 100),
        marks=Mark.LIVE,
    )
    pop_from_retry_probability_for_priority: int = setting(
        0,
        "popFromRetryProbabilityForPriority",
        "The same in topics of type PRIORITY: 0 makes retried messages the least urgent, 100 the most.",
        Range(0, 100),
        marks=Mark.LIVE,
    )
    priority_order_asc: bool = setting(
        True, "priorityOrderAsc", "Whether the highest number is the highest priority; false: 0 is.", marks=Mark.LIVE
    )
    enable_retry_topic_v2: bool = setting(
        False, "enableRetryTopicV2", "Retry topics of pops are named %RETRY%group+topic instead of %RETRY%group_topic."
    )
    retrieve_message_from_pop_retry_topic_v1: bool = setting(
        True,
        "retrieveMessageFromPopRetryTopicV1",
        "With enableRetryTopicV2, pop also from retry topics with the older names.",
    )
    use_separate_retry_queue: bool = setting(
        False,
        "useSeparateRetryQueue",
        "Retry topics of pops get as many queues as their topic, and messages come again in the queue of their number.",
    )
    pop_response_return_actual_retry_topic: bool = setting(
        False,
        "popResponseReturnActualRetryTopic",
        "Give out retried messages under the name of their retry topic.",
        marks=Mark.LIVE,
    )
    pop_polling_size: int = setting(
        1_024,
        "popPollingSize",
        "Pops held at once for one topic, group and queue; further ones are answered POLLING_FULL.",
        Range(1, 1_000_000),
        marks=Mark.LIMIT,
    )
    max_pop_polling_size: int = setting(
        100_000, "maxPopPollingSize", "Pops held at once in all.", Range(1, 10_000_000), marks=Mark.LIMIT
    )
    pop_check_points_limit: int = setting(
        200_000,
        "gateway.popCheckPointsLimit",
        "Pops with messages that are not acknowledged, about 700 bytes each; further ones are answered POLLING_FULL.",
        Range(1, 100_000_000),
        marks=Mark.LIMIT | Mark.LIVE,
    )
    pop_dead_letters: bool = setting(
        True,
        "gateway.popDeadLetters",
        "Popped messages that came back retryMaxTimes go to the dead-letter topic; false: they come again for ever.",
    )
