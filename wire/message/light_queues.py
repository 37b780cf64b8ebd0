"""Light queues (LMQ): additional queues for a message, besides the queue of its topic.

A producer names light queues in INNER_MULTI_DISPATCH, separated by commas. The broker writes the message's offset in
each queue into INNER_MULTI_QUEUE_OFFSET, in the same order. Each name is a topic with one queue, 0, that nobody
creates. Names that are not valid for a light queue have no offset. Upstream: ``MixAll.isLmq`` and ``LmqDispatch``.

Lite topics (5.5) are light queues that belong to a topic of type LITE, their parent. A producer names a lite topic in
``__LITE_TOPIC``, and the broker puts the message also into the light queue ``%LMQ%$parent$lite`` (``LiteUtil``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from wire.message.properties import PropertyName
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
LIGHT_QUEUE_ID: Final = 0
SEPARATOR: Final = ","
UNDISPATCHED_TOPICS: Final = (RETRY_TOPIC_PREFIX, "rmq_sys_", "RMQ_SYS_TRANS_", "SCHEDULE_TOPIC_XXXX")
"""The prefixes of topics whose messages are in no light queue.

Such messages come to their own topic later, or were there before. Copies of a message keep the offsets of the original,
so readers of the log need these prefixes too.
"""
OFFSET_BYTES: Final = 20
"""The most bytes of an offset in a light queue, with its separator."""
MAX_NAME_CHARACTERS: Final = 255
"""The most characters of a name, which is also a file's name; upstream has no limit of its own."""

_NAME = re.compile(r"%LMQ%[%|a-zA-Z0-9_$-]+")
_OFFSET = re.compile(r"[0-9]{1,18}")


def is_light_queue(name: str) -> bool:
    """Return whether a name is the name of a light queue, and so can be the name of a directory."""
    return len(name) <= MAX_NAME_CHARACTERS and _NAME.fullmatch(name) is not None


def wanted_queues(properties: Mapping[str, str]) -> list[str]:
    """Return the queues that a message's producer named, in order."""
    names = properties.get(PropertyName.INNER_MULTI_DISPATCH)
    return names.split(SEPARATOR) if names else []


def room_for_offsets(properties: Mapping[str, str]) -> int:
    """Return the most bytes that the offsets of a waiting message take as a property once it comes to its topic.

    The result is 0 if the message names no light queues, or if messages of its topic are in no light queue.
    """
    to_topic = properties.get(PropertyName.REAL_TOPIC, "")
    names = [] if to_topic.startswith(UNDISPATCHED_TOPICS) else wanted_queues(properties)
    return len(PropertyName.INNER_MULTI_QUEUE_OFFSET) + 2 + OFFSET_BYTES * len(names) if names else 0


def light_places(topic: str, properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the light queues of a message stored under ``topic``, and the message's offset in each queue."""
    return [] if topic.startswith(UNDISPATCHED_TOPICS) else named_places(properties)


def named_places(properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the light queues and offsets that a message's properties name, whatever its topic.

    Apache RocketMQ puts half messages into light queues too.
    """
    names = wanted_queues(properties)
    offsets = properties.get(PropertyName.INNER_MULTI_QUEUE_OFFSET, "").split(SEPARATOR)
    if len(names) != len(offsets):
        return []
    pairs = zip(names, offsets, strict=True)
    places = {name: int(offset) for name, offset in pairs if is_light_queue(name) and _OFFSET.fullmatch(offset)}
    return list(places.items())


LITE_SEPARATOR: Final = "$"
"""The separator in names of light queues; no parent topic can have this character in its name.

Never change the separator, because names of directories contain it.
"""
LITE_PREFIX: Final = LIGHT_QUEUE_PREFIX + LITE_SEPARATOR


def lite_queue(parent: str, lite_topic: str) -> str:
    """Return the light queue of a lite topic; the result may be invalid as the name of a light queue."""
    return f"{LITE_PREFIX}{parent}{LITE_SEPARATOR}{lite_topic}"


def lite_names(queue: str) -> tuple[str, str] | None:
    """Return the parent and the lite topic of a light queue; None for a queue of another kind."""
    if not queue.startswith(LITE_PREFIX):
        return None
    parent, separator, lite_topic = queue[len(LITE_PREFIX) :].partition(LITE_SEPARATOR)
    return (parent, lite_topic) if parent and separator and lite_topic else None
