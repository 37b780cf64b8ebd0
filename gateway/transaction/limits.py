"""The limits and times of transactions, as plain values.

All times are measured by the broker's clock. A name says its unit here, even if Apache RocketMQ's setting does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.settings.tree import Settings
from gateway.transaction.records.op_messages import MAX_ENTRIES

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """The limits that decide when a half message is checked or given up, and how its outcome is written."""

    timeout_ms: int = 6_000
    """The age at the first check (transactionTimeOut), unless the message has its own immunity time."""
    check_interval_ms: int = 30_000
    """The time between two checks of one half message (transactionCheckInterval)."""
    check_max: int = 15
    """The number of checks that reach a producer before a half message is given up (transactionCheckMax)."""
    max_age_ms: int = 72 * HOUR_MS
    """The age at which a half message is given up, checked or not: its log file is deleted soon (fileReservedTime)."""
    checks_in_flight: int = 200
    """The largest number of checks, over all groups, that are sent and not answered."""
    check_answer_timeout_ms: int = 5_000
    """The time after which an unanswered check no longer counts as in flight."""
    op_body_bytes: int = 4_096
    """The largest body of an op record (transactionOpMsgMaxSize)."""
    op_entries: int = MAX_ENTRIES
    """The largest number of half messages in one op record."""
    settle_batch_bytes: int = 1_048_576
    """The largest sum of the bodies of final messages that share one op record, or wait for the next write.

    A larger message goes alone.
    """
    recent_half_bytes: int = 32 * 1_048_576
    """The memory for half messages that are kept unchanged beside the log.

    An outcome that comes soon then needs no read of its half message.
    """
    remembered_outcomes: int = 64 * 1_048_576
    """The number of outcomes kept in memory, about a quarter of a byte each.

    Older outcomes are looked up in the log.
    """

    @classmethod
    def from_settings(cls, settings: Settings) -> TransactionLimits:
        """Return the limits that the broker's settings ask for."""
        return cls(
            timeout_ms=settings.transaction_timeout_ms,
            check_interval_ms=settings.transaction_check_interval_ms,
            check_max=settings.transaction_check_max,
            max_age_ms=settings.file_reserved_time_hours * HOUR_MS,
            checks_in_flight=settings.checks_in_flight,
            op_body_bytes=settings.transaction_op_msg_max_size,
            recent_half_bytes=settings.recent_half_bytes,
        )
