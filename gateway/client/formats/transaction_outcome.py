"""The outcome of a transaction as its broker is told: END_TRANSACTION, from the answer to the half send or to a check.

Pure. The fields are the Java client's (``DefaultMQProducerImpl.endTransaction`` and ``checkTransactionState``):
the half message's place comes from the offset message id and the offset in the half queue when the producer decides by
itself, and from the check's own header when the broker asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.message import Message, ReceivedMessage
from gateway.client.results import SendResult
from gateway.client.transaction_state import TransactionState
from wire.headers.transaction import CheckTransactionStateRequest, EndTransactionRequest
from wire.message.message_id import parse_offset_message_id

MAX_REMARK_CHARS = 512
"""Of the text of an exception that travels with an UNKNOWN: it is for the broker's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An END_TRANSACTION that is to be sent.

    :param message: what the transaction is about.
    :param broker_name: whose master is told, when the producer decided by itself; else ``""``.
    :param address: ``host:port`` of the broker that asked; else ``""``.
    """

    header: EndTransactionRequest
    message: Message | ReceivedMessage
    remark: str | None = None
    broker_name: str = ""
    address: str = ""

    @property
    def transaction(self) -> str:
        """The message id of the half message, for logs."""
        return self.header.msg_id

    @property
    def state(self) -> TransactionState:
        """What the broker is told."""
        return TransactionState(self.header.commit_or_rollback)


def outcome_of_half(
    group: str,
    topic: str,
    message: Message,
    half: SendResult,
    state: TransactionState,
    error: BaseException | None = None,
) -> Outcome:
    """What a producer tells after its local transaction.

    :param half: the answer to the half message's send.
    :param topic: the topic the message is for, with its namespace.
    :param error: what the local transaction raised, for the broker's log.
    :raises wire.errors.RemoteError: the broker's answer holds no offset message id.
    """
    _, commit_log_offset = parse_offset_message_id(half.offset_msg_id)
    return Outcome(
        header=EndTransactionRequest(
            topic=topic,
            producer_group=group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=False,
            msg_id=half.msg_id,
            transaction_id=half.transaction_id,
            bname=half.queue.broker_name,
        ),
        message=message,
        remark=remark_of("the local transaction", error),
        broker_name=half.queue.broker_name,
    )


def outcome_of_check(
    group: str,
    check: CheckTransactionStateRequest,
    message: ReceivedMessage,
    address: str,
    state: TransactionState,
    error: BaseException | None = None,
) -> Outcome:
    """What a producer answers when a broker asked.

    :param message: the half message, as the broker sent it along.
    :param address: where the question came from: the answer goes there.
    """
    return Outcome(
        header=EndTransactionRequest(
            topic=check.topic,
            producer_group=group,
            tran_state_table_offset=check.tran_state_table_offset,
            commit_log_offset=check.commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=message.msg_id,
            transaction_id=check.transaction_id,
            bname=check.bname,
        ),
        message=message,
        remark=remark_of("the check", error),
        address=address,
    )


def remark_of(what: str, error: BaseException | None) -> str | None:
    """An exception as the broker's log shows it; None without one."""
    if error is None:
        return None
    return f"{what} raised {type(error).__name__}: {error}"[:MAX_REMARK_CHARS]
