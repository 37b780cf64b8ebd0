"""Which names topics and groups may have, and which topics belong to the system.

The rules are those of upstream's ``TopicValidator`` and of the Java client's ``Validators``. A name is
checked where it enters the broker; the tables behind trust it. It never becomes part of a path unchecked.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.errors import RequestRefused
from wire.codes import ResponseCode

MAX_TOPIC_CHARACTERS = 127
"""Never change: a version 1 record keeps the topic's length in one signed byte."""
MAX_GROUP_CHARACTERS = 255
"""The Java client's limit; retry and dead-letter topics, which contain a group, may be this long too."""
_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_RULE = "only letters, digits, '%', '|', '_' and '-' are allowed"

RETRY_TOPIC_PREFIX: Final = "%RETRY%"
DEAD_LETTER_TOPIC_PREFIX: Final = "%DLQ%"
POP_RETRY_SEPARATOR = "+"
"""Between group and topic in the name of a pop retry topic of the second form; nowhere else in a name."""
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

DEFAULT_TOPIC = "TBW102"
"""The topic whose settings automatically created topics inherit (autoCreateTopicEnable)."""
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""Its offsets in the two half topics say where the transactions stand: only the broker moves them."""
CHECK_MAX_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
WHEEL_TIMER_TOPIC: Final = "rmq_sys_wheel_timer"

NOT_ALLOWED_SEND_TOPICS = frozenset(
    {
        *(SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC),
        *(HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TOPIC),
    }
)
"""Topics that only the broker itself writes to. Upstream lets clients write to that of the timer messages, and delivers
none of these any more after one that does not say when it is due."""

SYSTEM_TOPICS = NOT_ALLOWED_SEND_TOPICS | {DEFAULT_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC}
"""Never created or deleted by a request; a broker adds its own name, its cluster's and a few more."""


def topic_name_fault(topic: str) -> str | None:
    """Why this cannot be a topic's name, as a sentence, or None when it can."""
    derived = topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX))
    limit = MAX_GROUP_CHARACTERS if derived else MAX_TOPIC_CHARACTERS
    if topic.startswith(RETRY_TOPIC_PREFIX):
        topic = topic.replace(POP_RETRY_SEPARATOR, "_", 1)
    return _fault("topic", topic, limit)


def group_name_fault(group: str) -> str | None:
    """Why this cannot be a group's name, as a sentence, or None when it can."""
    return _fault("group", group, MAX_GROUP_CHARACTERS)


def check_topic_name(topic: str) -> None:
    """Let a valid topic name pass.

    :raises RequestRefused: INVALID_PARAMETER; the remark says which rule is broken.
    """
    fault = topic_name_fault(topic)
    if fault is not None:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, fault)


def check_group_name(group: str) -> None:
    """Let a valid group name pass.

    :raises RequestRefused: INVALID_PARAMETER; the remark says which rule is broken.
    """
    fault = group_name_fault(group)
    if fault is not None:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, fault)


def check_movable(group: str) -> None:
    """Let a group pass whose offsets requests may move; those of the transactions are the broker's own.

    :raises RequestRefused: INVALID_PARAMETER.
    """
    if group == TRANSACTION_GROUP:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"The group[{group}] is a system group, its offsets cannot be changed: "
            "they say which transactions are pending",
        )


def revive_topic(cluster: str) -> str:
    """The topic in which pops and their acknowledgements are written down."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


def reply_topic(cluster: str) -> str:
    """The topic that answers of request-reply calls travel through."""
    return f"{cluster}_REPLY_TOPIC"


def _fault(kind: str, name: str, limit: int) -> str | None:
    if not name or name.isspace():
        return f"The specified {kind} is blank"
    if len(name) > limit:
        return f"The specified {kind} has {len(name)} characters, the limit is {limit}: {name[:32]!r}…"
    if _ALLOWED.fullmatch(name) is None:
        return f"The specified {kind} contains illegal characters, {_RULE}: {name!r}"
    return None
