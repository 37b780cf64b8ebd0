"""Transactions as the gateway tells its own command line of them; Apache RocketMQ has nothing like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wire.bodies.declare import Body, JsonObject, field


class ListedTransaction(Body, kw_only=True):
    """One half message, or the copy of one that was given up.

    ``message_id`` says where the record lies, ``transaction_id`` is the unique key its producer gave it. Without a
    next check (``next_check_in_ms``) it is settled. ``waits_for_producer``: its group has no connection that could be
    asked. ``decided_by`` is known for the newest outcomes only. ``checks`` is None for a settled one: the broker no
    longer keeps its count. Ages and intervals are by the broker's clock.
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
    """A page; ``next_after`` is where the next one begins, None when this is the last."""

    transactions: Sequence[ListedTransaction] = ()
    next_after: int | None = None


class TransactionGroup(JsonObject, kw_only=True):
    """The half messages of one producer group: without outcome, due now, and checks that were not answered yet.

    ``unknowns`` are its answers without an outcome in a row; they lengthen the time between checks.
    """

    group: str
    pending: int = 0
    due: int = 0
    in_flight: int = 0
    unknowns: int = 0
    producers: int = 0


class TransactionStatistics(Body, kw_only=True):
    """All transactions of a broker in figures; ``counts`` are since its start, by metric name."""

    pending: int = 0
    oldest_age_ms: int = 0
    checks_in_flight: int = 0
    group_count: int = 0
    groups: Sequence[TransactionGroup] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
