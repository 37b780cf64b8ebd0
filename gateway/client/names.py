"""The rules for names of topics and groups (upstream ``Validators``)."""

from __future__ import annotations

import re
from typing import Final

from gateway.client.errors import MessageRefused

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
