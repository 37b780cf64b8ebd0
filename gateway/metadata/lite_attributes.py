"""The attributes of lite topics: those of a parent topic, and those of a group that is bound to a parent topic.

Upstream: ``LiteMetadataUtil``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.metadata.message_types import LITE, type_of_topic

EXPIRATION: Final = "lite.topic.expiration"
"""The topic attribute: minutes for which a lite topic stays after its last message; −1 and 0 mean for ever."""
MAX_EXPIRATION_MINUTES: Final = 43_200
BIND_TOPIC: Final = "lite.bind.topic"
"""The group attribute: the parent topic whose lite topics the group consumes."""
MODEL: Final = "lite.sub.model"
"""The group attribute: whether clients that subscribe to a lite topic share it, or the last client has it alone."""
SHARED: Final = "Shared"
EXCLUSIVE: Final = "Exclusive"
RESET_EXCLUSIVE: Final = "lite.sub.reset.offset.exclusive"
"""The group attribute: whether a client that takes over a lite topic alone starts at its first message."""
RESET_UNSUBSCRIBE: Final = "lite.sub.reset.offset.unsubscribe"
"""The group attribute: whether the next client starts at the first message after a client has unsubscribed."""
CLIENT_QUOTA: Final = "lite.sub.client.quota"
"""The group attribute: how many lite topics a client may subscribe to.

The proxy tells clients this quota, and clients keep to it.
"""
MAX_EVENT_COUNT: Final = "lite.sub.client.max.event.cnt"
"""The group attribute: upstream's limit of noted events for a client; here the client's subscriptions limit them."""
WILDCARD: Final = "lite.sub.wildcard"
"""The group attribute: with any value, clients of the group get all lite topics of the parent."""

_NUMBER = re.compile(r"[0-9]{1,9}")


def is_parent(attributes: Mapping[str, str]) -> bool:
    """Return whether a topic with these attributes has lite topics."""
    return type_of_topic(attributes) == LITE


def minutes_to_live(attributes: Mapping[str, str]) -> int:
    """Return how many minutes lite topics of a parent stay; −1 for ever."""
    text = attributes.get(EXPIRATION, "")
    return int(text) if _NUMBER.fullmatch(text) else -1


def bound_topic(attributes: Mapping[str, str]) -> str | None:
    """Return the parent topic of a group; None if the group is not bound."""
    return attributes.get(BIND_TOPIC) or None


def is_exclusive(attributes: Mapping[str, str]) -> bool:
    """Return whether one client of a group has a lite topic alone."""
    return attributes.get(MODEL) == EXCLUSIVE


def resets_on_takeover(attributes: Mapping[str, str]) -> bool:
    """Return whether a client that takes over a lite topic starts at its first message."""
    return attributes.get(RESET_EXCLUSIVE, "").lower() == "true"


def resets_on_unsubscribe(attributes: Mapping[str, str]) -> bool:
    """Return whether a group forgets its offset in a lite topic from which a client unsubscribes."""
    return attributes.get(RESET_UNSUBSCRIBE, "").lower() == "true"


def is_wildcard(attributes: Mapping[str, str]) -> bool:
    """Return whether clients of a group get all lite topics of the parent."""
    return bool(attributes.get(WILDCARD))
