"""The words in which clients say how they consume: the names of upstream's enums, apart from the bodies they stand in.

Settings of clients need them long before a body is written, and load nothing else with them.
"""

from __future__ import annotations

from enum import StrEnum

EXPRESSION_TYPE_TAG = "TAG"
EXPRESSION_TYPE_SQL92 = "SQL92"


class ConsumeType(StrEnum):
    """Who moves messages: the consumer pulls, a push consumer pulls for the application, or pop."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether the members of a group share the messages or each of them gets all."""

    BROADCASTING = "BROADCASTING"
    """Each message goes to every member; nothing is delivered again, and each keeps its own offsets."""
    CLUSTERING = "CLUSTERING"
    """Each message goes to one member."""


class ConsumeFromWhere(StrEnum):
    """Where a group without an offset begins."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
