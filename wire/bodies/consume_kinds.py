"""The words by which clients say how they consume: the names of upstream's enums, without the bodies that carry them.

Settings of clients need these words long before a body is written. For this reason the module loads nothing else.
"""

from __future__ import annotations

from enum import StrEnum

EXPRESSION_TYPE_TAG = "TAG"
EXPRESSION_TYPE_SQL92 = "SQL92"


class ConsumeType(StrEnum):
    """The way of messages to the application: the consumer pulls, a push consumer pulls for the application, or pop."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """The distribution of messages in a group: the members share the messages, or each member gets all."""

    BROADCASTING = "BROADCASTING"
    """Each message goes to every member. Nothing is delivered again, and each member keeps its own offsets."""
    CLUSTERING = "CLUSTERING"
    """Each message goes to one member."""


class ConsumeFromWhere(StrEnum):
    """The place where a group without an offset starts."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
