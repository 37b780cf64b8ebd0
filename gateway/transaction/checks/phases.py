"""The phases of the check service as one table (phase, event, next phase), and when the service wakes by itself; pure.

A pair that is missing from the table is a bug of ours.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

WATCH_MS: Final = 1_000
"""The interval at which overdue answers, parked groups and old half messages are looked for, while there are any."""
LONGEST_SLEEP_MS: Final = 60_000


class CheckPhase(Enum):
    """The present activity of the check service."""

    STOPPED = "stopped"
    """Nothing: the service was not started, or was stopped. A batch that a thread is still reading is thrown away."""
    ASLEEP = "asleep"
    """Waiting for the timer, an answer, or a half message that is due earlier."""
    IN_TURN = "in turn"
    """Choosing half messages and asking about them. Records that are in memory are read during the turn."""
    READING = "reading"
    """A thread reads a batch from the disk. The timer continues, but no other half message is chosen."""


class CheckEvent(Enum):
    """An event that can happen to the check service."""

    START = "start"
    STOP = "stop"
    WAKE = "wake"
    """The timer has ended."""
    COLD = "cold"
    """A thread reads the batch, because records that the turn needs are not in memory."""
    READ = "read"
    """The thread has read the batch."""
    REST = "rest"
    """The turn is over."""


CHECK_TRANSITIONS: Mapping[CheckPhase, Mapping[CheckEvent, CheckPhase]] = {
    CheckPhase.STOPPED: {
        CheckEvent.START: CheckPhase.ASLEEP,
        CheckEvent.STOP: CheckPhase.STOPPED,
        CheckEvent.COLD: CheckPhase.STOPPED,
        CheckEvent.READ: CheckPhase.STOPPED,
        CheckEvent.REST: CheckPhase.STOPPED,
    },
    CheckPhase.ASLEEP: {
        CheckEvent.STOP: CheckPhase.STOPPED,
        CheckEvent.WAKE: CheckPhase.IN_TURN,
    },
    CheckPhase.IN_TURN: {
        CheckEvent.STOP: CheckPhase.STOPPED,
        CheckEvent.COLD: CheckPhase.READING,
        CheckEvent.REST: CheckPhase.ASLEEP,
    },
    CheckPhase.READING: {
        CheckEvent.STOP: CheckPhase.STOPPED,
        CheckEvent.WAKE: CheckPhase.READING,
        CheckEvent.READ: CheckPhase.IN_TURN,
        CheckEvent.REST: CheckPhase.READING,
    },
}


class CheckWork(NamedTuple):
    """The work that the check service has."""

    is_any_pending: bool
    is_turn_waiting: bool
    """True if a half message could be checked now within the limits."""
    is_watching: bool
    """True if checks are unanswered, or groups wait for a producer."""
    due_in_ms: int | None
    """The time until the next half message is due; None if none has a due time."""


def next_wake_ms(phase: CheckPhase, work: CheckWork) -> int | None:
    """Return after how many milliseconds the service wakes by itself; None for never.

    A turn needs no timer, because this function is called again at the end of the turn.
    """
    if phase is CheckPhase.STOPPED or phase is CheckPhase.IN_TURN or not work.is_any_pending:
        return None
    if work.is_turn_waiting and phase is CheckPhase.ASLEEP:
        return 0
    wait_ms = WATCH_MS if work.is_watching else LONGEST_SLEEP_MS
    if work.due_in_ms is not None and work.due_in_ms < wait_ms:
        wait_ms = work.due_in_ms
    return wait_ms if wait_ms > 0 else 0
