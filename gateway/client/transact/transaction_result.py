"""What sending within a transaction answers, and what can go wrong with a transaction itself."""

from __future__ import annotations

from gateway.client.errors import NotSent, RocketMQError
from gateway.client.results import SendResult
from gateway.client.transaction_state import TransactionState


class TransactionSendResult(SendResult, frozen=True, kw_only=True):
    """Where the half message went, and what the local transaction said.

    :param state: what the broker was told.
    :param error: what the listener raised; the state is UNKNOWN then.
    """

    state: TransactionState
    error: BaseException | None = None


class HalfNotSafe(NotSent):
    """A half message was stored, but not as safely as its broker is set to: it is rolled back, nothing was run."""

    outcome_unknown = False

    def __str__(self) -> str:
        return (
            f"half message {self.result.msg_id} was stored with status {self.status}: the broker did not flush or "
            f"replicate it in time. It was rolled back and the local transaction was not run: try again later"
        )


class AlreadyDecided(RocketMQError):
    """A second outcome for one transaction.

    :param msg_id: of its message.
    :param state: what its broker was told, or is being told.
    :param wanted: what it cannot be told any more.
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
