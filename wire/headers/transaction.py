"""Headers of transactional messages: the two-way talk about half messages."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class EndTransactionRequest(Header):
    """Commit or roll back a half message (37).

    ``tran_state_table_offset`` is its offset in the half queue; ``commit_or_rollback`` is transaction bits of
    a system flag: 8 commit, 12 rollback, 0 unknown. ``bname`` is the broker's name, as clients of 5.x send it.
    """

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    bname: str | None = None


class CheckTransactionStateRequest(Header):
    """Ask a producer what became of a half message (39).

    ``topic`` and ``bname``, the broker's name, are sent by brokers of 5.x.
    """

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    bname: str | None = None


class ResumeCheckHalfMessageRequest(Header):
    """Check a half message again that was given up (323). ``msg_id`` is its offset message id."""

    topic: str | None = None
    msg_id: str | None = None


class ListTransactionsRequest(Header):
    """A page of half messages without outcome, the oldest first, or of those given up (19001, the gateway's own).

    ``after`` is the half offset, or with ``given_up`` the offset in TRANS_CHECK_MAX_TIME_TOPIC, behind which the page
    begins.
    """

    producer_group: str | None = None
    topic: str | None = None
    min_age_ms: Int64 = 0
    max_num: Int32 = 100
    after: Int64 = -1
    given_up: bool = False


class ShowTransactionRequest(Header):
    """One half message (19002, the gateway's own).

    ``id`` is its half offset, its offset message id, or the unique key of the message.
    """

    id: str


class SettleTransactionRequest(Header):
    """An operator's decision (19003, the gateway's own); ``outcome`` is ``commit``, ``rollback`` or ``discard``.

    ``operator`` is who decides, as far as the caller says, and ``reason`` why: both are for the audit log.
    """

    id: str
    outcome: str
    operator: str
    reason: str | None = None


class CheckTransactionRequest(Header):
    """Ask a producer now (19004, the gateway's own)."""

    id: str
    operator: str


class ResumeTransactionRequest(Header):
    """Make a half message that was given up pending again (19005, the gateway's own).

    ``id`` is the message id of its copy in TRANS_CHECK_MAX_TIME_TOPIC, or its unique key.
    """

    id: str
    operator: str


class TransactionStatisticsRequest(Header):
    """Figures of all transactions (19006, the gateway's own); ``max_num`` groups at most, the largest first."""

    max_num: Int32 = 20
