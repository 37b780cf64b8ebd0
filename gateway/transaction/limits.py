"""The limits and times of transactions, as plain values.

All times are by the broker's clock. Names without unit in Apache RocketMQ's settings have one here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.transaction.records.op_messages import MAX_ENTRIES

if TYPE_CHECKING:
    from gateway.settings.tree import Settings

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """What decides when a half message is checked, given up, and how its outcome is written."""

    timeout_ms: int = 6_000
    """Age at the first check (transactionTimeOut), unless the message brings its own immunity time."""
    check_interval_ms: int = 30_000
    """Between two checks of one half message (transactionCheckInterval)."""
    check_max: int = 15
    """Checks that reached a producer before a half message is given up (transactionCheckMax)."""
    max_age_ms: int = 72 * HOUR_MS
    """Older half messages are given up, checked or not: their log file is about to go (fileReservedTime)."""
    checks_in_flight: int = 200
    """Checks of all groups together that were sent and not answered."""
    check_answer_timeout_ms: int = 5_000
    """After this an unanswered check no longer counts as in flight."""
    op_body_bytes: int = 4_096
    """Largest body of an op record (transactionOpMsgMaxSize)."""
    op_entries: int = MAX_ENTRIES
    """Half messages of one op record."""
    settle_batch_bytes: int = 1_048_576
    """Bodies of final messages that share one op record, or wait for the next write; a larger one goes alone."""
    recent_half_bytes: int = 32 * 1_048_576
    """Half messages kept as they are beside the log, so that an outcome that comes soon need not read theirs."""
    remembered_outcomes: int = 64 * 1_048_576
    """Outcomes kept in memory, about a quarter of a byte each; older ones are looked up in the log."""

    @classmethod
    def from_settings(cls, settings: Settings) -> TransactionLimits:
        """The limits that the broker's settings ask for."""
        return cls(
            timeout_ms=settings.transaction_timeout_ms,
            check_interval_ms=settings.transaction_check_interval_ms,
            check_max=settings.transaction_check_max,
            max_age_ms=settings.file_reserved_time_hours * HOUR_MS,
            checks_in_flight=settings.checks_in_flight,
            op_body_bytes=settings.transaction_op_msg_max_size,
            recent_half_bytes=settings.recent_half_bytes,
        )
