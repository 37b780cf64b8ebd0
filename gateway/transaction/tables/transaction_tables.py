"""All tables about the transactions of one broker, as one value."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final, Generic, TypeVar

from gateway.settings import Settings
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.limits import DEFAULT_LIMITS, TransactionLimits
from gateway.transaction.replies import Source
from gateway.transaction.states import State
from gateway.transaction.tables.check_turns import CheckTurns
from gateway.transaction.tables.due_times import DueTimes
from gateway.transaction.tables.op_positions import OpPositions
from gateway.transaction.tables.outcomes import Outcomes
from gateway.transaction.tables.pending import Pending
from gateway.transaction.tables.recent_halves import RecentHalves
from wire.message.record import StoredMessage

V = TypeVar("V")


class Lately(Generic[V]):
    """The newest values by number.

    Half of the values are dropped at once, because removing the oldest entries of a large dictionary singly is slow.

    :param limit: the largest number of values. A full dictionary keeps at least half as many.
    """

    __slots__ = ("_half", "_newer", "_older")

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._newer: dict[int, V] = {}
        self._older: dict[int, V] = {}

    def put(self, number: int, value: V) -> None:
        """Note a value."""
        if len(self._newer) >= self._half:
            self._older = self._newer
            self._newer = {}
        self._newer[number] = value

    def get(self, number: int) -> V | None:
        """Return the value noted last for a number; None if there is none (any more)."""
        value = self._newer.get(number)
        return self._older.get(number) if value is None else value

    def forget(self, number: int) -> None:
        """Remove what was noted for a number."""
        self._newer.pop(number, None)
        self._older.pop(number, None)


MAX_REMEMBERED_SOURCES = 10_000
"""The number of outcomes whose asker is remembered, for the log line of a contradiction."""
MAX_REMEMBERED_ASKED = 100_000
"""The number of half messages whose last asked producer is remembered, for people who look."""

_PENDING: Final = State.PENDING


class TransactionTables:
    """The knowledge in memory about half messages. It changes only on the reactor's thread."""

    def __init__(
        self, settings: Settings, counts: TransactionCounts, limits: TransactionLimits = DEFAULT_LIMITS
    ) -> None:
        self.settings = settings
        self.limits = limits
        self.counts = counts
        self.outcomes = Outcomes(limits.remembered_outcomes)
        self.pending = Pending()
        self.turns = CheckTurns(
            max_in_flight=settings.checks_in_flight,
            answer_timeout_ms=limits.check_answer_timeout_ms,
            max_groups=limits.open_groups,
        )
        self.due_times = DueTimes()
        self.recent = RecentHalves(settings.recent_half_bytes)
        self.ops = OpPositions()
        self.sources: Lately[Source] = Lately(MAX_REMEMBERED_SOURCES)
        """The source (a client or the broker itself) of the outcome of a half message, by half offset."""
        self.conflicts: Lately[int] = Lately(MAX_REMEMBERED_SOURCES)
        """The number of refused contradicting outcomes of a half message, by half offset."""
        self.asked: Lately[tuple[str, int]] = Lately(MAX_REMEMBERED_ASKED)
        """The address and port of the producer that got the last check of a half message, by half offset."""
        self.copies: dict[str, int] = {}
        """The half offset of each half message that stands for earlier copies of the same message, by unique key."""

    def is_undecided(self, offset: int) -> bool:
        """Return whether a half message is pending and none of its outcomes is on the way to the log."""
        return offset in self.pending and self.outcomes.state(offset) is _PENDING

    def is_of(self, offset: int, commit_log_offset: int, group: str) -> bool:
        """Return whether a pending half message has this commit log offset and this producer group."""
        pending = self.pending
        return pending.place(offset)[0] == commit_log_offset and self.turns.name(pending.group(offset)) == group

    def stored_at_ms(self, half: StoredMessage) -> int:
        """Return when a half message was stored, by the broker's steady clock while the half message is pending."""
        offset = half.queue_offset
        return self.pending.stored_at_ms(offset) if offset in self.pending else half.stored_at_ms

    def joined_topic(self, name: str, count: int = 1) -> int:
        """Count ``count`` more open half messages of a real topic; return the topic's number."""
        number = self.counts.topic(name)
        self.counts.by_topic[number].half_messages.value += count
        return number

    def oldest_age_ms(self, now_ms: int) -> int:
        """Return the age of the oldest pending half message in milliseconds; 0 if none is pending."""
        pending = self.pending
        return now_ms - pending.stored_at_ms(pending.base) if pending.count else 0
