"""What attributes say of lite topics: those of a parent topic, and those of a group that is bound to one.

Upstream: ``LiteMetadataUtil``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.metadata.message_types import LITE, type_of_topic

EXPIRATION: Final = "lite.topic.expiration"
"""Of a topic: minutes after its last message for which a lite topic stays; −1 and 0: for ever."""
MAX_EXPIRATION_MINUTES: Final = 43_200
BIND_TOPIC: Final = "lite.bind.topic"
"""Of a group: the parent topic whose lite topics it consumes."""
MODEL: Final = "lite.sub.model"
"""Of a group: whether the clients that subscribe to a lite topic share it, or the last one has it alone."""
SHARED: Final = "Shared"
EXCLUSIVE: Final = "Exclusive"
RESET_EXCLUSIVE: Final = "lite.sub.reset.offset.exclusive"
"""Of a group: whether who takes over a lite topic alone begins at its first message."""
RESET_UNSUBSCRIBE: Final = "lite.sub.reset.offset.unsubscribe"
"""Of a group: whether the next one begins at the first message when a client has unsubscribed."""
CLIENT_QUOTA: Final = "lite.sub.client.quota"
"""Of a group: lite topics that a client may subscribe to; clients are told by the proxy, and keep to it."""
MAX_EVENT_COUNT: Final = "lite.sub.client.max.event.cnt"
"""Of a group: upstream's limit of what it notes for a client; here that has its subscriptions for a limit."""
WILDCARD: Final = "lite.sub.wildcard"
"""Of a group: with any value its clients get all lite topics of the parent."""

_NUMBER = re.compile(r"[0-9]{1,9}")


def is_parent(attributes: Mapping[str, str]) -> bool:
    """Whether a topic with these attributes has lite topics."""
    return type_of_topic(attributes) == LITE


def minutes_to_live(attributes: Mapping[str, str]) -> int:
    """For how long lite topics of a parent stay; −1 for ever."""
    text = attributes.get(EXPIRATION, "")
    return int(text) if _NUMBER.fullmatch(text) else -1


def bound_topic(attributes: Mapping[str, str]) -> str | None:
    """The parent topic of a group, None when it is bound to none."""
    return attributes.get(BIND_TOPIC) or None


def is_exclusive(attributes: Mapping[str, str]) -> bool:
    """Whether one client of a group has a lite topic alone."""
    return attributes.get(MODEL) == EXCLUSIVE


def resets_on_takeover(attributes: Mapping[str, str]) -> bool:
    """Whether who takes over a lite topic begins at its first message."""
    return attributes.get(RESET_EXCLUSIVE, "").lower() == "true"


def resets_on_unsubscribe(attributes: Mapping[str, str]) -> bool:
    """Whether a group forgets where it was in a lite topic that a client unsubscribes from."""
    return attributes.get(RESET_UNSUBSCRIBE, "").lower() == "true"


def is_wildcard(attributes: Mapping[str, str]) -> bool:
    """Whether the clients of a group get all lite topics of the parent."""
    return bool(attributes.get(WILDCARD))
