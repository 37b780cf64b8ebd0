"""Headers of transactional messages: the two-way talk about half messages."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class EndTransactionRequest(Header):
    """Commit or roll back a half message (37).

    ``tran_state_table_offset`` is its offset in the half queue; ``commit_or_rollback`` is transaction bits of
    a system flag: 8 commit, 12 rollback, 0 unknown.
    """

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class EndTransactionResponse(Header):
    """No fields (37)."""


class CheckTransactionStateRequest(Header):
    """Ask a producer what became of a half message (39)."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class CheckTransactionStateResponse(Header):
    """Of upstream's class list; producers answer a check with END_TRANSACTION instead."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32


class ResumeCheckHalfMessageRequest(Header):
    """Check a half message again that was given up (323). ``msg_id`` is its offset message id."""

    topic: str | None = None
    msg_id: str | None = None
