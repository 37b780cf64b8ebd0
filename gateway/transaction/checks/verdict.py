"""Decide what to do with a pending half message now: a pure function of a few numbers.

Two things differ from upstream's ``TransactionalMessageServiceImpl.check`` on purpose. The age starts when the broker
stored the message, and the client's clock plays no part. A check counts only after a live connection took it.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from gateway.settings import Settings


class Act(Enum):
    """The action of the check service for one half message."""

    TOO_YOUNG = "too young"
    CHECK = "check"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The action and, for a discard, its reason as a sentence for people."""

    act: Act
    reason: str = ""


class HalfFacts:
    """The facts about a half message that decide. Times are epoch milliseconds of the broker's clock.

    A plain class for speed, because every check makes one.

    :param due_at_ms: when the half message may be checked: after its immunity, then an interval after each check.
    :param checks: how many checks reached a producer.
    """

    __slots__ = ("checks", "due_at_ms", "stored_at_ms")

    def __init__(self, stored_at_ms: int, due_at_ms: int, checks: int) -> None:
        self.stored_at_ms = stored_at_ms
        self.due_at_ms = due_at_ms
        self.checks = checks


_TOO_YOUNG: Final = CheckVerdict(Act.TOO_YOUNG)
_CHECK: Final = CheckVerdict(Act.CHECK)


def verdict(half: HalfFacts, settings: Settings, now_ms: int) -> CheckVerdict:
    """Decide by the age limit first, then by the due time, then by the number of checks."""
    if now_ms - half.stored_at_ms > settings.file_reserved_time_ms:  # its log file may be deleted soon
        return CheckVerdict(Act.DISCARD, f"older than {settings.file_reserved_time_hours} hours without an outcome")
    if now_ms < half.due_at_ms:
        return _TOO_YOUNG
    if half.checks >= settings.transaction_check_max:
        return CheckVerdict(Act.DISCARD, f"no outcome after {half.checks} checks")
    return _CHECK


def immunity_ms(text: str | None, settings: Settings) -> int:
    """Return how many milliseconds after its storing a half message is not checked.

    :param text: the property CHECK_IMMUNITY_TIME_IN_SECONDS of the half message; None if it has none. A text that is
        not a number of seconds counts as none, as upstream.
    """
    if not text or not text.isascii() or not text.isdigit() or len(text) > _MAX_SECONDS_DIGITS:
        return settings.transaction_timeout_ms
    return int(text) * 1_000


_MAX_SECONDS_DIGITS = 12  # 30,000 years; longer times would not fit into the arrays of due times
