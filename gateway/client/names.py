"""The names of topics and groups: the rules for them (upstream ``Validators``), and the namespace of a client in them.

In a namespace (upstream ``NamespaceUtil``, namespace v1) a name becomes ``ns%topic``. The prefixes of retry and
dead-letter topics stay in front: ``%RETRY%ns%group``.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.client.errors import MessageRefused
from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

MAX_TOPIC_CHARS: Final = 127
"""The value of upstream's ``Validators.TOPIC_MAX_LENGTH``; never change this value."""
MAX_GROUP_CHARS: Final = 255
"""The value of upstream's ``Validators.CHARACTER_MAX_LENGTH``."""

_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def check_topic(topic: str) -> None:
    """Refuse a text that is not the name of a topic.

    :raises MessageRefused: empty, over 127 characters, or with characters other than letters, digits, ``%|_-``.
    """
    check_name("topic", topic, MAX_TOPIC_CHARS)


def check_group(group: str) -> None:
    """Refuse a text that is not the name of a group: the rules for topics, but up to 255 characters.

    :raises MessageRefused: the name breaks a rule.
    """
    check_name("group", group, MAX_GROUP_CHARS)


def check_name(part: str, name: str, most_chars: int) -> None:
    """Refuse an object that is not a name.

    :raises MessageRefused: not text, empty, over ``most_chars``, or with other characters than allowed.
    """
    if not isinstance(name, str):
        raise MessageRefused(part, f"is {type(name).__name__}, not str")
    if not name or len(name) > most_chars:
        raise MessageRefused(part, f"{name[:40]!r} has {len(name)} characters: it takes 1 to {most_chars}")
    if _NAME.fullmatch(name) is None:
        raise MessageRefused(part, f"{name!r} may contain letters, digits and the characters %|_- only")


_SEPARATOR: Final = "%"
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "CID_RMQ_SYS_")
_SYSTEM_NAMES: Final = frozenset(
    (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CLIENT_INNER_PRODUCER",
        "TOOLS_CONSUMER",
    )
)


def with_namespace(namespace: str, name: str) -> str:
    """Return ``name`` (a topic or group) in a namespace.

    The name stays unchanged without a namespace, for system names, or if the name has the namespace already.
    """
    if not namespace or name in _SYSTEM_NAMES or name.startswith(_SYSTEM_PREFIXES):
        return name
    prefix, plain = _split(name)
    inside = namespace + _SEPARATOR
    return name if plain.startswith(inside) else f"{prefix}{inside}{plain}"


def without_namespace(namespace: str, name: str) -> str:
    """Return ``name`` as the application knows it."""
    if not namespace:
        return name
    prefix, plain = _split(name)
    return prefix + plain.removeprefix(namespace + _SEPARATOR)


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
