"""The life of a half message as one table: state, event, next state. A missing entry is an error.

An outcome without an entry for the present state contradicts the earlier decision and is refused. A storage event
without an entry is a bug of ours. The picture in ``docs/transactions.md`` shows this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum


class State(IntEnum):
    """The state of a half message so far. The numbers exist in memory only, never on disk."""

    NONE = 0
    """Never seen, or settled so long ago that the state is forgotten."""
    PENDING = 1
    COMMITTING = 2
    """The final message and the op record are on their way to the log."""
    ROLLING_BACK = 3
    DISCARDING = 4
    COMMITTED = 5
    ROLLED_BACK = 6
    DISCARDED = 7
    """Given up: a copy is in TRANS_CHECK_MAX_TIME_TOPIC."""
    REPLACED = 8
    """Found at start: Apache RocketMQ wrote the half message again, and the later copy stands for both copies."""
    SETTLED = 9
    """Found at start: an op record of another broker names the half message, but says neither commit nor rollback."""


class Event(StrEnum):
    """An event in the life of a half message: an outcome is asked for, or its records were stored or not stored."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    DISCARD = "discard"
    STORED = "stored"
    FAILED = "failed"


TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.NONE: {},
    State.PENDING: {
        Event.COMMIT: State.COMMITTING,
        Event.ROLLBACK: State.ROLLING_BACK,
        Event.DISCARD: State.DISCARDING,
    },
    State.COMMITTING: {
        Event.COMMIT: State.COMMITTING,
        Event.STORED: State.COMMITTED,
        Event.FAILED: State.PENDING,
    },
    State.ROLLING_BACK: {
        Event.ROLLBACK: State.ROLLING_BACK,
        Event.STORED: State.ROLLED_BACK,
        Event.FAILED: State.PENDING,
    },
    State.DISCARDING: {Event.STORED: State.DISCARDED, Event.FAILED: State.PENDING},
    State.COMMITTED: {Event.COMMIT: State.COMMITTED},
    State.ROLLED_BACK: {Event.ROLLBACK: State.ROLLED_BACK},
    State.DISCARDED: {},
    State.REPLACED: {},
    State.SETTLED: {},
}

OPEN_STATES = frozenset({State.PENDING, State.COMMITTING, State.ROLLING_BACK, State.DISCARDING})
"""The states in which nothing is decided durably yet."""


def next_state(state: State, event: Event) -> State | None:
    """Return the state after an event; None if the table has no such entry."""
    return TRANSITIONS[state].get(event)
