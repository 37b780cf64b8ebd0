"""Settings of transactional messages: when and how often a producer is asked for an outcome."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.settings.declare import setting


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    """Half messages and their checks; all times are by the broker's clock."""

    reject_transaction_message: bool = setting(
        False, "rejectTransactionMessage", "Refuse half messages with NO_PERMISSION."
    )
    transaction_timeout_ms: int = setting(
        6_000,
        "transactionTimeOut",
        "Age a half message reaches before its producer is first asked for the outcome.",
        unit="ms",
        minimum=0,
        maximum=86_400_000,
    )
    transaction_check_interval_ms: int = setting(
        30_000,
        "transactionCheckInterval",
        "Time between two questions about the same half message.",
        unit="ms",
        minimum=10,
        maximum=86_400_000,
    )
    transaction_check_max: int = setting(
        15,
        "transactionCheckMax",
        "Questions that reached a producer before a half message without outcome is discarded.",
        minimum=1,
        maximum=1_000_000,
    )
    transaction_op_msg_max_size: int = setting(
        4_096,
        "transactionOpMsgMaxSize",
        "Largest body of an op message, which lists settled half messages.",
        unit="bytes",
        minimum=64,
        maximum=1_048_576,
    )
    checks_in_flight: int = setting(
        200,
        "gateway.checksInFlight",
        "Questions to producers that are unanswered at the same time.",
        minimum=1,
        maximum=100_000,
    )
