"""Transactions for the gateway's own command line; Apache RocketMQ has nothing like these bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wire.bodies.declare import Body, JsonObject, field


class ListedTransaction(Body, kw_only=True):
    """One half message, or the copy of a half message that was given up.

    ``message_id`` says where the record lies, and ``transaction_id`` is the unique key from its producer. A half
    message without a next check (``next_check_in_ms``) is settled. ``waits_for_producer`` is True if the group has no
    connection that could be asked. ``decided_by`` is known only for the newest outcomes. ``checks`` is None for a
    settled half message, because the broker no longer keeps its count. Ages and intervals are measured by the broker's
    clock.
    """

    half_offset: int
    state: str
    group: str = ""
    topic: str = ""
    queue_id: int = 0
    message_id: str = ""
    transaction_id: str = ""
    keys: str = ""
    commit_log_offset: int = -1
    body_bytes: int = 0
    stored_at_ms: int = 0
    age_ms: int | None = None
    checks: int | None = None
    next_check_in_ms: int | None = None
    waits_for_producer: bool = False
    last_producer: str = ""
    conflicts: int = 0
    decided_by: str = ""
    reason: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


class TransactionList(Body, kw_only=True):
    """A page of transactions; ``next_after`` is the start of the next page, None on the last page."""

    transactions: Sequence[ListedTransaction] = ()
    next_after: int | None = None


class TransactionGroup(JsonObject, kw_only=True):
    """Figures of one producer group: half messages without an outcome, half messages due now, and unanswered checks.

    ``unknowns`` counts the group's last answers in a row that gave no outcome; these lengthen the time between checks.
    """

    group: str
    pending: int = 0
    due: int = 0
    in_flight: int = 0
    unknowns: int = 0
    producers: int = 0


class TransactionStatistics(Body, kw_only=True):
    """Figures about all transactions of a broker; ``counts`` are counts since the broker's start, by metric name."""

    pending: int = 0
    oldest_age_ms: int = 0
    checks_in_flight: int = 0
    group_count: int = 0
    groups: Sequence[TransactionGroup] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
