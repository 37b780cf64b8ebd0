"""A producer whose messages are delivered only if a local transaction was committed, for asyncio.

    async with TransactionProducer("orders", Orders(), namesrv="localhost:9876") as producer:
        async with producer.begin(message) as transaction:  # the half message is stored here
            await save(order)
            await transaction.commit()

If a transaction has no verdict, the broker later asks any producer of the group. ``listener.check`` then answers from
what the local transaction has written. Requests and fields are those of upstream's ``TransactionMQProducer``. Unlike
upstream, exceptions of the listener are reported to the caller, and an outcome is sent again while its broker cannot
be reached.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import asdict

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Answer
from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.errors import ClientClosed, ConfigurationError, MessageRefused, RocketMQError, RouteNotFound
from gateway.client.message import Message
from gateway.client.names import check_topic, with_namespace
from gateway.client.results import SendResult, SendStatus
from gateway.client.send.producer import Producer
from gateway.client.send.sender import Sender
from gateway.client.send.sending import Sending, SendOptions
from gateway.client.transact.transaction import BegunTransaction, HalfNotSafe, Transaction, TransactionSendResult
from gateway.client.transact.transactions import GroupTransactions
from gateway.client.transaction_state import TransactionChecker, TransactionState, source_of, state_of
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName

log = logging.getLogger(__name__)

LONGEST_PAUSE_S: Final = 10.0
"""The most seconds between two tries to find the brokers when no name server answers."""

_ANY_STATUS = tuple(int(status) for status in SendStatus)


class TransactionSender(Sender):
    """Sends the messages of one group of transaction producers."""

    async def send_half(self, message: Message, timeout: float | None = None) -> SendResult:
        """Store a half message; every status counts as success.

        A try with an unknown outcome is not repeated. Each stored half message gets checked, and two half messages of
        one local transaction would both be committed.

        :param timeout: seconds; None: ``send_msg_timeout`` of the settings.
        :raises MessageRefused: the message has a delay, which a transaction does not allow.
        """
        if message.is_delayed:
            raise MessageRefused("delay", "cannot be combined with a transaction: brokers ignore it there")
        settings = self.settings
        options = SendOptions(
            timeout=settings.send_msg_timeout if timeout is None else timeout,
            retries=settings.retry_times_when_send_failed,
            accept=_ANY_STATUS,
            more_properties={PropertyName.TRAN_MSG: "true", PropertyName.PGROUP: self.group},
            sys_flag=SysFlag.TRANSACTION_PREPARED,
        )
        return await (await self.submit(message, options))

    def _may_retry(self, sending: Sending, error: RocketMQError) -> bool:
        if sending.options.sys_flag & SysFlag.TRANSACTION_PREPARED and error.outcome_unknown:
            return False
        return super()._may_retry(sending, error)


class TransactionProducer(Producer):
    """A ``Producer`` of a group that answers for transactions.

    :param listener: answers checks; with a method ``execute`` it also runs the local transactions of
        ``send_in_transaction``. Its methods may be plain (they run in threads) or ``async def``.
    :param topics: the topics of this group's transactions. With them, the brokers of these topics can ask this producer
        before it has sent a message. Not needed where brokers create topics (``autoCreateTopicEnable``).
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
        """Make the producer ready, and look for the brokers that may ask for outcomes. Idempotent.

        The errors are those of ``Producer.start``.
        """
        if self._transactions is not None:
            return
        await super().start()
        instance = self._running_instance()
        self._transactions = GroupTransactions(instance, self.group, self.settings, self._listener, self._trace)
        instance.spawn(self._find_brokers(instance), name="look for brokers")

    async def close(self, timeout: float = Producer.CLOSE_TIMEOUT) -> None:
        """Wait for outcomes that are not sent yet, then close as ``Producer.close`` does."""
        self._check_process()
        self._check_loop()
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            await transactions.end(timeout)
        await super().close(timeout)

    def begin(self, message: Message, *, timeout: float | None = None) -> BegunTransaction:
        """Open a block: ``async with producer.begin(message) as transaction`` stores the half message at its start.

        Call ``transaction.commit()`` or ``transaction.rollback()`` in the block. A block that ends without such a call,
        or with an exception, is UNKNOWN: the broker asks the checker. The errors at the start of the block are those of
        ``prepare``.
        """
        return BegunTransaction(lambda: self.prepare(message, timeout=timeout))

    async def prepare(self, message: Message, *, timeout: float | None = None) -> Transaction:
        """Store a half message; the caller has to decide the transaction. ``begin`` does the same with a block.

        :param timeout: seconds; None: ``send_msg_timeout``.
        :raises MessageRefused: the message cannot be sent in a transaction. Nothing was sent.
        :raises HalfNotSafe: stored, but not as safely as the broker's settings demand; the transaction is rolled back.
        :raises RocketMQError: the message was not stored. With ``outcome_unknown`` it may be stored: then the check
            decides.
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
        """Store a half message, run ``listener.execute(message, arg)``, and report the returned state to the broker.

        An exception of ``execute`` is logged and is the ``error`` of the result; the state is UNKNOWN then.

        :raises ConfigurationError: the listener has no method ``execute``.
        :raises RocketMQError: the errors of ``prepare``; ``execute`` was not called.
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
        """Return the method that runs local transactions.

        :raises ConfigurationError: the listener has no method ``execute``.
        """
        execute = getattr(self._listener, "execute", None)
        if not callable(execute):
            raise ConfigurationError("listener", self._listener, "an object with a method execute(message, arg)")
        return cast("Callable[[Message, object], Any]", execute)

    async def executed(
        self, transaction: Transaction, state: TransactionState, error: Exception | None = None
    ) -> TransactionSendResult:
        """Report the state of a local transaction to the broker, and return the result of ``send_in_transaction``."""
        if error is not None:
            source = source_of(self.execute_of_listener())
            log.error("%s raised; transaction %s is unknown", source, transaction.msg_id, exc_info=error)
        await transaction.decide(state, error)
        return TransactionSendResult(**asdict(transaction.half), state=state, error=error)

    # --- as a member ----------------------------------------------------------------------------------------

    def topics(self) -> Collection[str]:
        """Return the topics whose brokers may ask."""
        return self._checked_topics

    def answers(self) -> Mapping[int, Answer]:
        """Return the handlers of a producer, and the handler of checks."""
        return {**super().answers(), RequestCode.CHECK_TRANSACTION_STATE: self._check}

    # --- inside ---------------------------------------------------------------------------------------------

    def _make_sender(self, instance: ClientInstance) -> Sender:
        return TransactionSender(instance, self.group, self.settings)

    def _running_transactions(self) -> GroupTransactions:
        self._running_instance()
        if self._transactions is None:
            raise ClientClosed(f"transaction producer {self.group}", "is being closed")
        return self._transactions

    async def _check(self, command: RemotingCommand, address: str) -> None:
        if self._transactions is not None:  # closing: another of the group is asked, or this one after its start
            await self._transactions.check(command, address)

    async def _find_brokers(self, instance: ClientInstance) -> None:
        """Learn the routes of the topics, and so send heartbeats to their brokers.

        Brokers can ask this producer only after a heartbeat.
        """
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
