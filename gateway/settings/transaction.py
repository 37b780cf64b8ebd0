"""Settings of transactional messages: when and how often a producer is asked for an outcome."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from gateway.settings.declare import Mark, Range, setting

_DATABASE = re.compile(r"(sqlite:/.+|postgres(ql)?://.*)?", re.DOTALL)
_PASSWORD = re.compile(r"//[^/@:]*:[^/@]*@")
_SECRETS = ("password", "secret")
"""The ends of the names of a DSN's parameters that no setting may have: also ``sslpassword``."""


class OperatorAccess(StrEnum):
    """The clients from which requests of ``rocketmq-gateway transactions`` are accepted."""

    LOOPBACK = "LOOPBACK"
    EVERYWHERE = "EVERYWHERE"
    NOWHERE = "NOWHERE"


class TransactionStateStore(StrEnum):
    """The design of Apache RocketMQ that keeps the pending transactions: of 4.3 and later, of 3.1.x, of 4.0."""

    QUEUE = "queue"
    TABLE = "table"
    DATABASE = "database"


def database_expected(text: str) -> str | None:
    """Return what ``gateway.transactionDatabase`` expects if ``text`` is wrong, otherwise None."""
    parameters = (unquote(part.partition("=")[0]).lower() for part in text.partition("?")[2].split("&"))
    if _PASSWORD.search(text) or any(name.endswith(_SECRETS) for name in parameters):
        return "a DSN without a password, as settings can be read by others: use PGPASSWORD, PGPASSFILE or a service"
    if _DATABASE.fullmatch(text):
        return None
    return "nothing, sqlite:/PATH or postgresql://USER@HOST:PORT/DATABASE"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BrokerTransactionSettings:
    """Half messages and their checks. All times are by the broker's clock."""

    reject_transaction_message: bool = setting(
        False, "rejectTransactionMessage", "Refuse half messages with NO_PERMISSION.", marks=Mark.LIVE
    )
    transaction_timeout_ms: int = setting(
        6_000,
        "transactionTimeOut",
        "Age a half message reaches before its producer is first asked for the outcome.",
        Range(0, 86_400_000, "ms"),
    )
    transaction_check_interval_ms: int = setting(
        30_000,
        "transactionCheckInterval",
        "Time between two questions about the same half message.",
        Range(10, 86_400_000, "ms"),
    )
    transaction_check_max: int = setting(
        15,
        "transactionCheckMax",
        "Questions that reached a producer before a half message without outcome is discarded.",
        Range(1, 1_000_000),
    )
    transaction_op_msg_max_size: int = setting(
        4_096,
        "transactionOpMsgMaxSize",
        "Largest body of an op message, which lists settled half messages.",
        Range(64, 1_048_576, "bytes"),
    )
    checks_in_flight: int = setting(
        200,
        "gateway.checksInFlight",
        "Questions to producers that are unanswered at the same time.",
        Range(1, 100_000),
        marks=Mark.LIMIT,
    )
    operator_access: OperatorAccess = setting(
        OperatorAccess.LOOPBACK,
        "gateway.operatorAccess",
        "From where `rocketmq-gateway transactions` may look at half messages and settle them: this machine only, "
        "every address that reaches the port, or nowhere.",
    )
    recent_half_bytes: int = setting(
        33_554_432,
        "gateway.recentHalfBytes",
        "Half messages kept in memory as they are, so that an outcome that comes soon need not read theirs.",
        Range(0, 17_179_869_184, "bytes"),
        marks=Mark.LIMIT,
    )
    transaction_state_store: TransactionStateStore = setting(
        TransactionStateStore.QUEUE,
        "transactionStateStore",
        "Where pending transactions are kept: op records (queue), the files of 3.1.x (table) or rows (database).",
    )
    transaction_database: str = setting(
        "",
        "gateway.transactionDatabase",
        "transactionStateStore=database: sqlite:/PATH or postgresql://…; empty: SQLite in storePathRootDir.",
        within=database_expected,
    )
    transaction_changes_limit: int = setting(
        10_000,
        "gateway.transactionChangesLimit",
        "Half messages that may wait for a table or database that fails; beyond this they are refused as busy.",
        Range(1, 10_000_000),
        marks=Mark.LIMIT,
    )
