"""Where a group without a stored offset begins to read a queue (upstream ``computePullFromWhere``).

Only the decision is here; asking a broker for an offset is ``consume/offset_store.py``'s. A broker of 5.x answers
"0" instead of "not stored" for a queue whose first message is still in memory, so a new group on a young topic begins
at its first message whatever is said here; Java clients do the same.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.client.errors import ConfigurationError
from gateway.client.namespaces import RETRY_PREFIX
from wire.bodies.consume_kinds import ConsumeFromWhere

DEFAULT_TIMESTAMP_AGE_S: Final = 1800.0
"""How long ago ``ConsumeFrom.TIMESTAMP`` begins when no time is given, as upstream."""


class ConsumeFrom(StrEnum):
    """Where a group without an offset begins. Names and meaning are those of Java's ``ConsumeFromWhere``."""

    LAST_OFFSET = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    """After the last message: only what is stored from now on."""
    FIRST_OFFSET = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET.value
    """At the first message that is still stored."""
    TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP.value
    """At the first message stored at ``consume_timestamp`` or later."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """Begin here."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """Begin at the offset the next message will get: ask the broker (30)."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """Begin at the first message stored at this time or later: ask the broker (29)."""

    timestamp_ms: int


Position = AtOffset | AtEnd | AtTime


def first_position(topic: str, consume_from: ConsumeFrom, timestamp_ms: int) -> Position:
    """Return where to begin in a queue of which the group has no offset.

    A retry topic is read from its first message: it holds only what failed in this group. A Java group
    that begins at a time skips what its retry topic already has.
    """
    if consume_from is ConsumeFrom.FIRST_OFFSET or topic.startswith(RETRY_PREFIX):
        return AtOffset(0)
    return AtEnd() if consume_from is ConsumeFrom.LAST_OFFSET else AtTime(timestamp_ms)


def timestamp_ms_of(when: datetime.datetime | float | None, now_ms: int) -> int:
    """Epoch milliseconds of a time given as an aware datetime or in epoch seconds; None: half an hour ago.

    :raises ConfigurationError: a datetime without a time zone, or a time before 1970.
    """
    if when is None:
        return now_ms - int(DEFAULT_TIMESTAMP_AGE_S * 1000)
    if isinstance(when, datetime.datetime):
        if when.tzinfo is None:
            raise ConfigurationError("consume_timestamp", when, "a datetime with a time zone, or epoch seconds")
        when = when.timestamp()
    if not isinstance(when, int | float) or when < 0:
        raise ConfigurationError("consume_timestamp", when, "an aware datetime, or epoch seconds of 0 or more")
    return int(when * 1000)
