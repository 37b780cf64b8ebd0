"""The outcome of a transaction as the broker gets it: END_TRANSACTION, after a half send or as the answer to a check.

No I/O. The fields are the Java client's (``DefaultMQProducerImpl.endTransaction`` and ``checkTransactionState``). If
the producer decides without a check, the half message's place comes from the offset message id and the offset in the
half queue. If the broker asked, the place comes from the header of the check.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.message import Message, ReceivedMessage
from gateway.client.results import SendResult
from gateway.client.transaction_state import TransactionState
from wire.headers.transaction import CheckTransactionStateRequest, EndTransactionRequest
from wire.message.message_id import parse_offset_message_id

MAX_REMARK_CHARS = 512
"""The most characters of an exception's text that are sent with UNKNOWN, for the broker's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An END_TRANSACTION to send.

    :param message: the message of the transaction.
    :param broker_name: the broker whose master gets the outcome, if the producer decided without a check; otherwise
        ``""``.
    :param address: ``host:port`` of the broker that asked; otherwise ``""``.
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
        """The state that the broker gets."""
        return TransactionState(self.header.commit_or_rollback)


def outcome_of_half(
    group: str,
    topic: str,
    message: Message,
    half: SendResult,
    state: TransactionState,
    error: BaseException | None = None,
) -> Outcome:
    """Return the outcome that a producer sends after its local transaction.

    :param half: the answer to the half message's send.
    :param topic: the topic of the message, with its namespace.
    :param error: the exception of the local transaction, for the broker's log.
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
    """Return the outcome that a producer sends after a broker's check.

    :param message: the half message, as the check carries it.
    :param address: the broker that asked; the outcome is sent to the same address.
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
    """Return an exception as text for the broker's log, None without an exception."""
    if error is None:
        return None
    return f"{what} raised {type(error).__name__}: {error}"[:MAX_REMARK_CHARS]
