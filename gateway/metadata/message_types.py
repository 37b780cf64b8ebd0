"""The types of messages and topics of 5.x: a message's properties and a topic's attributes decide.

A message has exactly one type, the first of the list that fits. Upstream: ``TopicMessageType``, and for the comparison
the proxy's ``DefaultTopicMessageTypeValidator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wire.message.properties import PropertyName

MESSAGE_TYPE: Final = "message.type"
"""The topic attribute for the type."""
UNSPECIFIED: Final = "UNSPECIFIED"
NORMAL: Final = "NORMAL"
FIFO: Final = "FIFO"
DELAY: Final = "DELAY"
TRANSACTION: Final = "TRANSACTION"
PRIORITY: Final = "PRIORITY"
LITE: Final = "LITE"
MIXED: Final = "MIXED"
TOPIC_TYPES: Final = (UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE, MIXED)
"""The types that a topic of this broker may have."""

_DELAYS = frozenset(
    {
        PropertyName.DELAY,
        PropertyName.TIMER_DELIVER_MS,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELAY_MS,
    }
)
MAX_PRIORITY_DIGITS = 9


def type_of_message(properties: Mapping[str, str]) -> str:
    """Return the type of a message with these properties."""
    if (properties.get(PropertyName.TRAN_MSG) or "").lower() == "true":
        return TRANSACTION
    if not _DELAYS.isdisjoint(properties):
        return DELAY
    for name, kind in ((PropertyName.SHARDING_KEY, FIFO), (PropertyName.PRIORITY, PRIORITY)):
        if name in properties:
            return kind
    return LITE if PropertyName.LITE_TOPIC in properties else NORMAL


def type_of_topic(attributes: Mapping[str, str]) -> str:
    """Return the type of a topic with these attributes."""
    return attributes.get(MESSAGE_TYPE, NORMAL)


def mismatch(attributes: Mapping[str, str], properties: Mapping[str, str]) -> str | None:
    """Return why a topic with these attributes refuses a message with these properties; None if it does not."""
    expected, actual = type_of_topic(attributes), type_of_message(properties)
    if expected in (actual, MIXED):
        return None
    return f"TopicMessageType validate failed, the expected type is {expected}, but actual type is {actual}"


def priority_of(properties: Mapping[str, str]) -> int:
    """Return the priority that a message asks for; −1 if missing or not a number, as in Java's ``NumberUtils``."""
    text = properties.get(PropertyName.PRIORITY, "")
    if text.isascii() and text.isdigit() and len(text) <= MAX_PRIORITY_DIGITS:
        return int(text)
    return -1
