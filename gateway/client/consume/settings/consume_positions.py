"""The start of a group that has no stored offset of a queue (upstream ``computePullFromWhere``).

This module only decides; ``consume/queue_offsets.py`` asks a broker for the offset. If the first message of a queue is
still in memory, a broker of 5.x answers "0" instead of "not stored". A new group on a young topic then starts at the
first message, whatever the setting is. Java clients do the same.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.client.errors import ConfigurationError
from gateway.client.names import RETRY_PREFIX
from wire.bodies.consume_kinds import ConsumeFromWhere

DEFAULT_TIMESTAMP_AGE_S: Final = 1800.0
"""Seconds before now at which ``ConsumeFrom.TIMESTAMP`` starts if no time is given, as upstream."""


class ConsumeFrom(StrEnum):
    """The start of a group without an offset. Names and meaning are those of Java's ``ConsumeFromWhere``."""

    LAST_OFFSET = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    """The end of the queue: only messages that are stored from now on."""
    FIRST_OFFSET = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET.value
    """The first message that is still stored."""
    TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP.value
    """The first message stored at ``consume_timestamp`` or later."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The position at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """The position at the offset that the next message will get; a broker knows the offset (30)."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """The position at the first message stored at this time or later; a broker knows the offset (29)."""

    timestamp_ms: int


Position = AtOffset | AtEnd | AtTime


def first_position(topic: str, consume_from: ConsumeFrom, timestamp_ms: int) -> Position:
    """Return the position at which a group starts to read a queue for which it has no offset.

    A retry topic is read from its first message, because it holds only messages that failed in this group. A Java group
    that starts at a time skips messages that its retry topic already has.
    """
    if consume_from is ConsumeFrom.FIRST_OFFSET or topic.startswith(RETRY_PREFIX):
        return AtOffset(0)
    return AtEnd() if consume_from is ConsumeFrom.LAST_OFFSET else AtTime(timestamp_ms)


def timestamp_ms_of(when: datetime.datetime | float | None, now_ms: int) -> int:
    """Return the epoch milliseconds of an aware datetime or of epoch seconds; for None, half an hour ago.

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
