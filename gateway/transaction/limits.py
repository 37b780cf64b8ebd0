"""The limits of transactions that are not settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.transaction.records.op_messages import MAX_ENTRIES

MAX_OPEN_GROUPS: Final = 10_000
"""The most producer groups that have open half messages at the same time; a start may find more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """Limits that only tests change. The settings are in ``TransactionTables.settings``."""

    check_answer_timeout_ms: int = 5_000
    """The time after which an unanswered check no longer counts as in flight."""
    open_groups: int = MAX_OPEN_GROUPS
    """The largest number of producer groups with open half messages that clients may make."""
    op_entries: int = MAX_ENTRIES
    """The largest number of half messages in one op record."""
    settle_batch_bytes: int = 1_048_576
    """The largest sum of the bodies of final messages that share one op record, or wait for the next write.

    A larger message goes alone.
    """
    remembered_outcomes: int = 64 * 1_048_576
    """The number of outcomes kept in memory, about a quarter of a byte each.

    Older outcomes are looked up in the log.
    """


DEFAULT_LIMITS: Final = TransactionLimits()
