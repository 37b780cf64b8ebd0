"""Headers for transactional messages: the dialogue about half messages."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class EndTransactionRequest(Header):
    """Commit or roll back a half message (37).

    ``tran_state_table_offset`` is the offset of the half message in the half queue. ``commit_or_rollback`` has the
    transaction bits of a system flag: 8 commit, 12 rollback, 0 unknown. ``bname`` is the broker's name, as clients of
    5.x send it.
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
    """Ask a producer for the outcome of a half message (39).

    Brokers of 5.x send ``topic``, and ``bname``, the broker's name.
    """

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    bname: str | None = None


class ResumeCheckHalfMessageRequest(Header):
    """Resume the checks of a half message that was given up (323). ``msg_id`` is its offset message id."""

    topic: str | None = None
    msg_id: str | None = None


class ListTransactionsRequest(Header):
    """Ask for a page of half messages (19001, the gateway's own).

    The page has half messages without an outcome, the oldest first, or with ``given_up`` those that were given up. The
    page starts after ``after``, an offset in the half queue, or with ``given_up`` an offset in
    TRANS_CHECK_MAX_TIME_TOPIC.
    """

    producer_group: str | None = None
    topic: str | None = None
    min_age_ms: Int64 = 0
    max_num: Int32 = 100
    after: Int64 = -1
    given_up: bool = False


class ShowTransactionRequest(Header):
    """Ask for one half message (19002, the gateway's own).

    ``id`` is the half offset, the offset message id or the unique key of the message.
    """

    id: str


class SettleTransactionRequest(Header):
    """Settle a half message by an operator's decision (19003, the gateway's own).

    ``outcome`` is ``commit``, ``rollback`` or ``discard``. ``operator`` is the person who decides, as the caller states
    it. ``reason`` says why. Operator and reason go into the audit log.
    """

    id: str
    outcome: str
    operator: str
    reason: str | None = None


class CheckTransactionRequest(Header):
    """Ask a producer for the outcome now (19004, the gateway's own)."""

    id: str
    operator: str


class ResumeTransactionRequest(Header):
    """Make a half message that was given up pending again (19005, the gateway's own).

    ``id`` is the message id of its copy in TRANS_CHECK_MAX_TIME_TOPIC, or its unique key.
    """

    id: str
    operator: str


class TransactionStatisticsRequest(Header):
    """Ask for figures about all transactions (19006, the gateway's own).

    The answer has ``max_num`` groups at most, the largest first.
    """

    max_num: Int32 = 20
