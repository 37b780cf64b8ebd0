"""Light queues (LMQ): further queues that a message is put into, besides that of its topic.

A producer names them in INNER_MULTI_DISPATCH, separated by commas; the broker writes the message's offset in each into
INNER_MULTI_QUEUE_OFFSET, in the same order. Each name is a topic with one queue, 0, that nobody creates. Names that are
no light queues' have no offset. Upstream: ``MixAll.isLmq`` and ``LmqDispatch``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from wire.message.properties import PropertyName

LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
LIGHT_QUEUE_ID: Final = 0
SEPARATOR: Final = ","
UNDISPATCHED_TOPICS: Final = ("%RETRY%", "rmq_sys_", "RMQ_SYS_TRANS_", "SCHEDULE_TOPIC_XXXX")
"""Begins of topics whose messages are in no light queue: they come to their own topic later, or have been there.
Copies of a message keep the offsets of the first one, so readers of the log have to know, too."""
MAX_NAME_CHARACTERS: Final = 255
"""Of a file's name; upstream has no limit of its own."""

_NAME = re.compile(r"%LMQ%[%|a-zA-Z0-9_$-]+")
_OFFSET = re.compile(r"[0-9]{1,18}")


def is_light_queue(name: str) -> bool:
    """Whether this is the name of a light queue; it can be a directory's name then."""
    return len(name) <= MAX_NAME_CHARACTERS and _NAME.fullmatch(name) is not None


def wanted_queues(properties: Mapping[str, str]) -> list[str]:
    """What a message's producer named, in order."""
    names = properties.get(PropertyName.INNER_MULTI_DISPATCH)
    return names.split(SEPARATOR) if names else []


def light_places(topic: str, properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """The light queues that a message stored under ``topic`` is in, and its offset in each."""
    return [] if topic.startswith(UNDISPATCHED_TOPICS) else named_places(properties)


def named_places(properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """The same by its properties alone: Apache RocketMQ puts half messages into light queues, too."""
    names = wanted_queues(properties)
    offsets = properties.get(PropertyName.INNER_MULTI_QUEUE_OFFSET, "").split(SEPARATOR)
    if len(names) != len(offsets):
        return []
    pairs = zip(names, offsets, strict=True)
    places = {name: int(offset) for name, offset in pairs if is_light_queue(name) and _OFFSET.fullmatch(offset)}
    return list(places.items())
