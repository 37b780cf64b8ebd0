"""``TransactionProducer``: messages that are delivered only if a local transaction was committed.

    with TransactionProducer("orders", Orders(), namesrv="localhost:9876") as producer:
        with producer.begin(message) as transaction:  # the half message is stored here
            database.commit()
            transaction.commit()

The class of ``gateway.client.aio.TransactionProducer`` for threads. Local transactions run in the calling thread,
checks in threads of the producer.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from gateway.client import aio
from gateway.client.blocking.face import GroupFace
from gateway.client.blocking.producer import Producer
from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.errors import RocketMQError
from gateway.client.message import Message
from gateway.client.results import SendResult
from gateway.client.transact.transaction import TransactionSendResult
from gateway.client.transaction_state import TransactionChecker, TransactionState, source_of, state_of

if TYPE_CHECKING:
    from gateway.client.blocking.loop_thread import LoopThread
    from gateway.client.transact.transaction import Transaction as AioTransaction

log = logging.getLogger(__name__)


class Transaction:
    """A half message that its broker has stored, and that waits for its outcome."""

    __slots__ = ("_core", "_thread")

    def __init__(self, transaction: AioTransaction, thread: LoopThread) -> None:
        self._core = transaction
        self._thread = thread

    @property
    def message(self) -> Message:
        """The message that will be delivered."""
        return self._core.message

    @property
    def half(self) -> SendResult:
        """The place of the half message."""
        return self._core.half

    @property
    def msg_id(self) -> str:
        """The id of the message, which consumers see, too."""
        return self._core.msg_id

    @property
    def state(self) -> TransactionState | None:
        """The state that was reported to the broker, None before the report."""
        return self._core.state

    def commit(self) -> None:
        """Let the message be delivered.

        :raises AlreadyDecided: commit or rollback was called before, or the block has ended.
        """
        self._thread.run(self._core.commit())

    def rollback(self) -> None:
        """Drop the message: it is never delivered.

        :raises AlreadyDecided: commit or rollback was called before, or the block has ended.
        """
        self._thread.run(self._core.rollback())

    def _leave(self, error: BaseException | None) -> None:
        """End the block: an undecided transaction becomes UNKNOWN, and the broker asks the checker."""
        if self._core.state is None:
            try:
                self._thread.run(self._core.decide(TransactionState.UNKNOWN, error))
            except RocketMQError as problem:  # the check decides all the same, and what the block raised matters more
                log.warning("%r is left to the check: %s", self._core, problem)

    def __repr__(self) -> str:
        return repr(self._core)


class BegunTransaction:
    """The object of ``with producer.begin(message) as transaction``; ``transact.transaction`` says more."""

    __slots__ = ("_message", "_producer", "_timeout", "_transaction")

    def __init__(self, producer: TransactionProducer, message: Message, timeout: float | None) -> None:
        self._producer = producer
        self._message = message
        self._timeout = timeout
        self._transaction: Transaction | None = None

    def __enter__(self) -> Transaction:
        self._transaction = self._producer.prepare(self._message, timeout=self._timeout)
        return self._transaction

    def __exit__(self, _kind: object, error: BaseException | None, *_: object) -> None:
        if self._transaction is not None:
            self._transaction._leave(error)


class TransactionProducer(Producer):
    """A ``Producer`` of a group that answers for transactions; ``aio.TransactionProducer`` says more.

    :param listener: answers checks, in threads of the producer; with a method ``execute`` it also runs the local
        transactions of ``send_in_transaction``, in the calling thread.
    :param topics: the topics of this group's transactions, for brokers that do not create topics.
    :param settings: None: ``TransactionSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    """

    _core: aio.TransactionProducer
    settings: TransactionSettings

    def __init__(
        self,
        group: str,
        listener: TransactionChecker,
        settings: TransactionSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        topics: Collection[str] = (),
    ) -> None:
        producer = aio.TransactionProducer(group, listener, settings, namesrv=namesrv, topics=topics)
        GroupFace.__init__(self, producer)  # ``Producer`` would make a core of its own

    def begin(self, message: Message, *, timeout: float | None = None) -> BegunTransaction:
        """Open a block: ``with producer.begin(message) as transaction`` stores the half message at its start.

        Call ``transaction.commit()`` or ``transaction.rollback()`` in the block. A block that ends without such a call,
        or with an exception, is UNKNOWN: the broker asks the checker. The errors at the start of the block are those of
        ``prepare``.
        """
        return BegunTransaction(self, message, timeout)

    def prepare(self, message: Message, *, timeout: float | None = None) -> Transaction:
        """Store a half message; the caller has to decide the transaction.

        ``aio.TransactionProducer.prepare`` says more.
        """
        return Transaction(self._run(self._core.prepare(message, timeout=timeout)), self._thread)

    def send_in_transaction(
        self, message: Message, arg: object = None, *, timeout: float | None = None
    ) -> TransactionSendResult:
        """Store a half message, run ``listener.execute(message, arg)`` in this thread, and report the verdict.

        ``aio.TransactionProducer.send_in_transaction`` says more.
        """
        self._check_process()
        producer, thread = self._core, self._thread
        execute = producer.execute_of_listener()
        if inspect.iscoroutinefunction(execute):
            return thread.run(producer.send_in_transaction(message, arg, timeout=timeout))
        transaction = thread.run(producer.prepare(message, timeout=timeout))
        try:
            state = state_of(execute(message, arg), source_of(execute))
        except Exception as error:  # noqa: BLE001 - the listener is the user's: whatever it raises counts as UNKNOWN
            return thread.run(producer.executed(transaction, TransactionState.UNKNOWN, error))
        return thread.run(producer.executed(transaction, state))
