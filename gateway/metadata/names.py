"""The rules for names of topics and groups, and the names of the system's topics.

The rules are those of upstream's ``TopicValidator`` and of the Java client's ``Validators``. A name is checked where it
enters the broker; the tables trust a checked name. A name never becomes part of a path unchecked.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

MAX_TOPIC_CHARACTERS = 127
"""The longest name of a topic. Never change: a version 1 record keeps the topic's length in one signed byte."""
MAX_GROUP_CHARACTERS = 255
"""The longest name of a group, and of retry and dead-letter topics, which contain a group: the Java client's limit."""
_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_RULE = "only letters, digits, '%', '|', '_' and '-' are allowed"

POP_RETRY_SEPARATOR = "+"
"""The character between group and topic in a pop retry topic of the second form; no other name may contain it."""
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
"""The group of the transactions: only the broker moves its offsets.

The group's offsets in the two half topics say where the transactions stand.
"""
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
"""The topics to which only the broker itself writes.

Upstream lets clients write to the topic of the timer messages. After one message without a due time, upstream delivers
no timer messages any more.
"""

SYSTEM_TOPICS = NOT_ALLOWED_SEND_TOPICS | {DEFAULT_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC}
"""The topics that no request creates or deletes; a broker adds its own name, its cluster's and a few more."""


def is_inner_topic(topic: str) -> bool:
    """Return whether a topic is the broker's own, in which messages of other topics wait, or what was popped of them.

    Accounts that may use all topics may not use these: they would read what is denied to them elsewhere.
    """
    return topic in NOT_ALLOWED_SEND_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def topic_name_fault(topic: str) -> str | None:
    """Return why no topic may have this name, as a sentence, or None if the name is valid."""
    derived = topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX))
    limit = MAX_GROUP_CHARACTERS if derived else MAX_TOPIC_CHARACTERS
    if topic.startswith(RETRY_TOPIC_PREFIX):
        topic = topic.replace(POP_RETRY_SEPARATOR, "_", 1)
    return _fault("topic", topic, limit)


def group_name_fault(group: str) -> str | None:
    """Return why no group may have this name, as a sentence, or None if the name is valid."""
    return _fault("group", group, MAX_GROUP_CHARACTERS)


def check_topic_name(topic: str) -> None:
    """Check the name of a topic.

    :raises RequestRefused: INVALID_PARAMETER; the remark says which rule is broken.
    """
    fault = topic_name_fault(topic)
    if fault is not None:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, fault)


def check_group_name(group: str) -> None:
    """Check the name of a group.

    :raises RequestRefused: INVALID_PARAMETER; the remark says which rule is broken.
    """
    fault = group_name_fault(group)
    if fault is not None:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, fault)


def has_retry_topic(group: str) -> bool:
    """Return whether a group with a valid name can have a retry topic: the name of that is seven characters longer."""
    return len(RETRY_TOPIC_PREFIX) + len(group) <= MAX_GROUP_CHARACTERS


def check_movable(group: str) -> None:
    """Check that requests may move a group's offsets; only the broker moves the offsets of the transactions.

    :raises RequestRefused: INVALID_PARAMETER, the group is that of the transactions.
    """
    if group == TRANSACTION_GROUP:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"The group[{group}] is a system group, its offsets cannot be changed: "
            "they say which transactions are pending",
        )


def revive_topic(cluster: str) -> str:
    """Return the topic in which pops and their acknowledgements are recorded."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


REPLY_TOPIC_ENDING: Final = "_REPLY_TOPIC"


def reply_topic(cluster: str) -> str:
    """Return the topic through which answers of request-reply calls are sent."""
    return cluster + REPLY_TOPIC_ENDING


def _fault(kind: str, name: str, limit: int) -> str | None:
    if not name or name.isspace():
        return f"The specified {kind} is blank"
    if len(name) > limit:
        return f"The specified {kind} has {len(name)} characters, the limit is {limit}: {name[:32]!r}…"
    if _ALLOWED.fullmatch(name) is None:
        return f"The specified {kind} contains illegal characters, {_RULE}: {name!r}"
    return None
