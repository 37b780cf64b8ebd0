"""A producer whose messages are delivered only if a local transaction was committed, for asyncio.

    async with TransactionProducer("orders", Orders(), namesrv="localhost:9876") as producer:
        async with producer.begin(message) as transaction:  # the half message is stored here
            await save(order)
            await transaction.commit()

What has no verdict is asked for by the broker later, of any producer of the group: ``listener.check`` answers, from
what the local transaction has written. Upstream: ``TransactionMQProducer``, whose requests and fields these are; unlike
there, what a listener raises is told to the caller, and an outcome is sent again while its broker cannot be reached.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Answer
from gateway.client.errors import ClientClosed, ConfigurationError, RocketMQError, RouteNotFound
from gateway.client.message import Message
from gateway.client.names import check_topic
from gateway.client.namespaces import with_namespace
from gateway.client.results import SendStatus
from gateway.client.send.producer import Producer
from gateway.client.send.sender import Sender
from gateway.client.transact.transaction import BegunTransaction, Transaction
from gateway.client.transact.transaction_result import HalfNotSafe, TransactionSendResult
from gateway.client.transact.transaction_sender import TransactionSender
from gateway.client.transact.transaction_settings import TransactionSettings
from gateway.client.transact.transactions import GroupTransactions
from gateway.client.transaction_state import TransactionChecker, TransactionState, source_of, state_of
from wire.codes import RequestCode
from wire.command import RemotingCommand

log = logging.getLogger(__name__)

LONGEST_PAUSE_S: Final = 10.0
"""Between two tries to find the brokers when no name server answers."""


class TransactionProducer(Producer):
    """A ``Producer`` of a group that answers for transactions.

    :param listener: answers checks; with a method ``execute`` it also runs the local transactions of
        ``send_in_transaction``. Its methods may be plain (they run in threads) or ``async def``.
    :param topics: topics of this group's transactions: so their brokers can ask this producer before it has sent
        anything. Not needed where brokers create topics (``autoCreateTopicEnable``).
    :param settings: None: ``TransactionSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    """

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
        if not callable(getattr(listener, "check", None)):
            raise ConfigurationError("listener", listener, "an object with a method check(message)")
        for topic in topics:
            check_topic(topic)
        super().__init__(group, TransactionSettings.chosen(settings, namesrv))
        self._listener = listener
        self._transactions: GroupTransactions | None = None
        template = self.settings.create_topic_key
        self._checked_topics = {template, *(with_namespace(self.settings.namespace, topic) for topic in topics)}

    async def start(self) -> None:
        """Make it ready, and look for the brokers that may ask for outcomes; idempotent. As of ``Producer``."""
        if self._transactions is not None:
            return
        await super().start()
        instance = self._running_instance()
        self._transactions = GroupTransactions(instance, self._group, self.settings, self._listener, self._trace)
        instance.spawn(self._find_brokers(instance), name="look for brokers")

    async def close(self, timeout: float = Producer.CLOSE_TIMEOUT) -> None:
        """As of ``Producer``; waits for outcomes that are not sent yet, too."""
        self._check_process()
        self._check_loop()
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            transactions.close()
            await transactions.drain(timeout)
        await super().close(timeout)

    def begin(self, message: Message, *, timeout: float | None = None) -> BegunTransaction:
        """``async with producer.begin(message) as transaction``: stores the half message at its begin.

        Call ``transaction.commit()`` or ``transaction.rollback()`` in the block. A block that ends without, or with
        an exception, is UNKNOWN: the broker asks the checker. Errors of the begin are those of ``prepare``.
        """
        return BegunTransaction(lambda: self.prepare(message, timeout=timeout))

    async def prepare(self, message: Message, *, timeout: float | None = None) -> Transaction:
        """Store a half message; the caller has to decide it. ``begin`` does the same with a block around.

        :param timeout: seconds; None: ``send_msg_timeout``.
        :raises MessageRefused: the message cannot be sent in a transaction. Nothing was sent.
        :raises HalfNotSafe: stored, but not as safely as the broker is set up for; it is rolled back.
        :raises RocketMQError: it was not stored, or with ``outcome_unknown`` it may be: then the check decides.
        """
        sender = self._running_sender()
        assert isinstance(sender, TransactionSender), "_make_sender makes one"
        half = await sender.send_half(message, timeout)
        transaction = Transaction(message, half, self._running_transactions().tell)
        if half.status is not SendStatus.SEND_OK:
            error = HalfNotSafe(half)
            await transaction.decide(TransactionState.ROLLBACK, error)
            raise error
        return transaction

    async def send_in_transaction(
        self, message: Message, arg: object = None, *, timeout: float | None = None
    ) -> TransactionSendResult:
        """Store a half message, run ``listener.execute(message, arg)``, and tell the broker what it returned.

        What ``execute`` raises is logged and in ``error`` of the result; the state is UNKNOWN then.

        :raises ConfigurationError: the listener has no method ``execute``.
        :raises RocketMQError: as of ``prepare``; nothing was run.
        """
        execute = self.execute_of_listener()
        transaction = await self.prepare(message, timeout=timeout)
        try:
            if inspect.iscoroutinefunction(execute):
                verdict = await execute(message, arg)
            else:
                verdict = await asyncio.to_thread(execute, message, arg)
            state = state_of(verdict, source_of(execute))
        except Exception as error:  # noqa: BLE001 - the listener is the user's: whatever it raises counts as UNKNOWN
            return await self.executed(transaction, TransactionState.UNKNOWN, error)
        return await self.executed(transaction, state)

    # --- for the blocking face ------------------------------------------------------------------------------

    def execute_of_listener(self) -> Callable[[Message, object], Any]:
        """What runs local transactions.

        :raises ConfigurationError: the listener has no method ``execute``.
        """
        execute = getattr(self._listener, "execute", None)
        if not callable(execute):
            raise ConfigurationError("listener", self._listener, "an object with a method execute(message, arg)")
        return cast("Callable[[Message, object], Any]", execute)

    async def executed(
        self, transaction: Transaction, state: TransactionState, error: Exception | None = None
    ) -> TransactionSendResult:
        """Tell the broker what a local transaction came to; the result of ``send_in_transaction``."""
        if error is not None:
            source = source_of(self.execute_of_listener())
            log.error("%s raised; transaction %s is unknown", source, transaction.msg_id, exc_info=error)
        await transaction.decide(state, error)
        return result_of(transaction, error)

    # --- as a member ----------------------------------------------------------------------------------------

    def topics(self) -> Collection[str]:
        """See ``Member``: topics whose brokers may ask."""
        return self._checked_topics

    def answers(self) -> Mapping[int, Answer]:
        """See ``Member``: checks, and what a producer answers."""
        return {**super().answers(), RequestCode.CHECK_TRANSACTION_STATE: self._check}

    # --- inside ---------------------------------------------------------------------------------------------

    def _make_sender(self, instance: ClientInstance) -> Sender:
        return TransactionSender(instance, self._group, self.settings)

    def _running_transactions(self) -> GroupTransactions:
        self._running_instance()
        if self._transactions is None:
            raise ClientClosed(f"transaction producer {self._group}", "is being closed")
        return self._transactions

    async def _check(self, command: RemotingCommand, address: str) -> None:
        transactions = self._transactions
        if transactions is not None:  # closing: another producer of the group is asked, or this one after its start
            await transactions.check(command, address)

    async def _find_brokers(self, instance: ClientInstance) -> None:
        """Learn the routes of the topics, which sends heartbeats to their brokers: only then they can ask us."""
        pause = self.settings.reconnect_backoff_min
        wanted = set(self._checked_topics)
        while wanted:
            for topic in sorted(wanted):
                try:
                    await instance.route(topic)
                except RouteNotFound as missing:
                    log.debug("brokers of %s cannot ask for outcomes yet: %s", topic, missing)
                except RocketMQError as error:
                    log.info("looking for the brokers that may ask for outcomes: %s", error)
                    continue
                wanted.discard(topic)  # the polling of routes looks again for those that are missing
            await asyncio.sleep(pause if wanted else 0)
            pause = min(pause * 2 + 0.01, LONGEST_PAUSE_S)


def result_of(transaction: Transaction, error: BaseException | None) -> TransactionSendResult:
    """What ``send_in_transaction`` returns of a decided transaction."""
    half = transaction.half
    assert transaction.state is not None, "it is decided"
    return TransactionSendResult(
        half.status,
        half.msg_id,
        half.offset_msg_id,
        half.queue,
        half.queue_offset,
        half.transaction_id,
        half.recall_handle,
        state=transaction.state,
        error=error,
    )
