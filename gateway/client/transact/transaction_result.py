"""The result of a send within a transaction, and the errors of a transaction."""

from __future__ import annotations

from gateway.client.errors import NotSent, RocketMQError
from gateway.client.results import SendResult
from gateway.client.transaction_state import TransactionState


class TransactionSendResult(SendResult, frozen=True, kw_only=True):
    """The place of the half message, and the state of the local transaction.

    :param state: the state that was reported to the broker.
    :param error: the exception that the listener raised; the state is UNKNOWN then.
    """

    state: TransactionState
    error: BaseException | None = None


class HalfNotSafe(NotSent):
    """A half message was stored, but not as safely as its broker's settings demand.

    The transaction is rolled back, and the local transaction was not run.
    """

    outcome_unknown = False

    def __str__(self) -> str:
        return (
            f"half message {self.result.msg_id} was stored with status {self.status}: the broker did not flush or "
            f"replicate it in time. It was rolled back and the local transaction was not run: try again later"
        )


class AlreadyDecided(RocketMQError):
    """A second outcome for one transaction.

    :param msg_id: the id of the message.
    :param state: the state that was reported to the broker, or is being reported.
    :param wanted: the second state, which can no longer be reported.
    """

    def __init__(self, msg_id: str, state: TransactionState, wanted: TransactionState) -> None:
        super().__init__(msg_id, state, wanted)
        self.msg_id = msg_id
        self.state = state
        self.wanted = wanted

    def __str__(self) -> str:
        return (
            f"transaction {self.msg_id} is to be {self.wanted.name} and its outcome is {self.state.name} already: call "
            f"commit() or rollback() once, before the end of its block"
        )
