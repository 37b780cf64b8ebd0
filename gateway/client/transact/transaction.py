"""One transaction of the application, prepared and decided once; the result of its send, and its errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gateway.client.errors import NotSent, RocketMQError
from gateway.client.message import Message
from gateway.client.results import SendResult
from gateway.client.transaction_state import TransactionState

log = logging.getLogger(__name__)


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


Tell: TypeAlias = Callable[["Transaction", TransactionState, BaseException | None], Awaitable[None]]
"""A function that reports the state of a transaction to the broker."""


class Transaction:
    """A half message that its broker has stored, and that waits for its outcome.

    :param message: the message that will be delivered.
    :param half: the place of the half message.
    """

    __slots__ = ("_tell", "half", "message", "state")

    def __init__(self, message: Message, half: SendResult, tell: Tell) -> None:
        self.message = message
        self.half = half
        self.state: TransactionState | None = None
        """The state that is reported to the broker; None before the report."""
        self._tell = tell

    @property
    def msg_id(self) -> str:
        """The id of the message, which consumers see, too."""
        return self.half.msg_id

    async def commit(self) -> None:
        """Let the message be delivered.

        :raises AlreadyDecided: commit or rollback was called before, or the block has ended.
        """
        await self.decide(TransactionState.COMMIT)

    async def rollback(self) -> None:
        """Drop the message: it is never delivered.

        :raises AlreadyDecided: commit or rollback was called before, or the block has ended.
        """
        await self.decide(TransactionState.ROLLBACK)

    async def decide(self, state: TransactionState, error: BaseException | None = None) -> None:
        """Report a state to the broker, once.

        If the broker cannot be reached now, the outcome is sent as soon as possible, or a later check finds the
        outcome.

        :param error: the reason for UNKNOWN, for the broker's log.
        :raises AlreadyDecided: a state was reported before.
        """
        if self.state is not None:
            raise AlreadyDecided(self.msg_id, self.state, state)
        self.state = state
        await self._tell(self, state, error)

    def __repr__(self) -> str:
        state = "undecided" if self.state is None else self.state.name
        return f"<Transaction {self.msg_id} of {self.message.topic}: {state}>"


class BegunTransaction:
    """The block ``async with producer.begin(message) as transaction``: stores the half message when it starts.

    A block that ends without a verdict, or with an exception, is UNKNOWN: the broker will ask the checker. So no
    transaction stays undecided.
    """

    __slots__ = ("_prepare", "_transaction")

    def __init__(self, prepare: Callable[[], Awaitable[Transaction]]) -> None:
        self._prepare = prepare
        self._transaction: Transaction | None = None

    async def __aenter__(self) -> Transaction:
        self._transaction = await self._prepare()
        return self._transaction

    async def __aexit__(self, _kind: object, error: BaseException | None, *_: object) -> None:
        transaction = self._transaction
        if transaction is not None and transaction.state is None:
            try:
                await transaction.decide(TransactionState.UNKNOWN, error)
            except RocketMQError as problem:  # the check decides all the same, and what the block raised matters more
                log.warning("%r is left to the check: %s", transaction, problem)
