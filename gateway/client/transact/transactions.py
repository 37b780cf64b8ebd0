"""The transactions of one producer: their outcomes on the way to brokers, and the checks that brokers ask for.

A broker that gets no answer asks again. A broker that stores half messages again for each check (Apache RocketMQ) asks
about another place each time. One call of the checker answers all these questions. Only the newest question is
answered, since the older questions are about places that the broker no longer looks at.
"""

from __future__ import annotations

import logging
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.connect.remoting import request_command
from gateway.client.errors import ProtocolError
from gateway.client.formats.transaction_outcome import Outcome, outcome_of_check, outcome_of_half
from gateway.client.message import ReceivedMessage
from gateway.client.names import with_namespace, without_namespace
from gateway.client.transact.check_calls import CheckCalls
from gateway.client.transact.outcome_sender import OutcomeSender
from gateway.client.transact.transaction import Transaction
from gateway.client.transaction_state import TransactionChecker, TransactionState
from wire.codes import RequestCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.errors import RemoteError
from wire.headers.declare import read_header
from wire.headers.transaction import CheckTransactionStateRequest
from wire.message.properties import PropertyName
from wire.message.record import parse_record

if TYPE_CHECKING:
    from gateway.client.send.trace_sender import TraceSender

log = logging.getLogger(__name__)


class _Question(NamedTuple):
    """A broker's check, and the address for the answer."""

    header: CheckTransactionStateRequest
    message: ReceivedMessage
    address: str


Q = TypeVar("Q")


class AskedCheck(Enum):
    """The way in which a question was taken."""

    NEW = "the checker has to be called"
    JOINED = "its answer will be that of a check already under way"
    REFUSED = "too many are waiting: the broker asks again later"


class TransactionChecks(Generic[Q]):
    """The checks that a producer has received and not answered: the newest of each transaction, up to a limit.

    :param limit: the most transactions that may wait at once, upstream's ``checkRequestHoldMax``.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._newest: dict[str, Q] = {}
        self.joined = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._newest)

    def ask(self, transaction: str, question: Q) -> AskedCheck:
        """Note a question, and return how it was taken."""
        if transaction in self._newest:
            self._newest[transaction] = question
            self.joined += 1
            return AskedCheck.JOINED
        if len(self._newest) >= self._limit:
            self.refused += 1
            return AskedCheck.REFUSED
        self._newest[transaction] = question
        return AskedCheck.NEW

    def answer(self, transaction: str) -> Q:
        """Remove and return the question to answer, after the checker has decided.

        A later question about this transaction counts as new.
        """
        return self._newest.pop(transaction)


class GroupTransactions:
    """The outcomes and checks of one producer.

    :param group: the producer group, without the namespace.
    :param trace: records every outcome that was written.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: TransactionSettings,
        checker: TransactionChecker,
        trace: TraceSender | None = None,
    ) -> None:
        self._instance = instance
        self._settings = settings
        self._group = with_namespace(settings.namespace, group)
        self._checker = checker
        self._trace = trace
        self._checks: TransactionChecks[_Question] = TransactionChecks(settings.check_request_hold_max)
        self._calls = CheckCalls(settings.check_thread_pool_max_size, settings.check_timeout, f"checks of {group}")
        self._outcomes = OutcomeSender(
            self._send,
            spawn=partial(instance.spawn, name="outcome of a transaction"),
            timeout=settings.outcome_timeout,
            limit=settings.max_waiting_outcomes,
            random=instance.random,
        )

    async def tell(self, transaction: Transaction, state: TransactionState, error: BaseException | None) -> None:
        """Report the state of a transaction to the broker, now or as soon as the broker can be reached.

        :raises ProtocolError: the broker's answer to the half message does not tell the place of the half message.
        """
        topic = with_namespace(self._settings.namespace, transaction.message.topic)
        try:
            outcome = outcome_of_half(self._group, topic, transaction.message, transaction.half, state, error)
        except RemoteError as problem:
            where = f"broker {transaction.half.queue.broker_name}"
            raise ProtocolError(where, f"its answer to a half message: {problem}; the check will decide") from problem
        await self._outcomes.tell(outcome)

    async def check(self, command: RemotingCommand, address: str) -> None:
        """Handle a check (request code 39), and send the answer when the checker has decided."""
        try:
            header = read_header(CheckTransactionStateRequest, command)
            record = parse_record(command.body)
        except RemoteError as error:
            log.warning("%s asks about a transaction in a way that cannot be read: %s", address, error)
            return
        group = record.property_map.get(PropertyName.PGROUP)
        if group is not None and group != self._group:
            log.warning("%s asks group %s about a transaction of group %s", address, self._group, group)
            return
        message = ReceivedMessage(
            record, header.bname or self._broker_name(address), namespace=self._settings.namespace
        )
        asked = self._checks.ask(message.msg_id, _Question(header, message, address))
        if asked is AskedCheck.REFUSED:
            log.warning(
                "the check of transaction %s is left to the broker's next try: %d are waiting "
                "(check_request_hold_max); %d were left so far",
                message.msg_id,
                len(self._checks),
                self._checks.refused,
            )
        elif asked is AskedCheck.NEW:
            await self._check(message)

    async def end(self, timeout: float) -> None:
        """Run no more checks, and wait until all outcomes are reported, at most ``timeout`` seconds."""
        self._calls.close()
        await self._outcomes.drain(timeout)

    async def _check(self, message: ReceivedMessage) -> None:
        checker = self._checker
        source = f"{type(checker).__name__}.check"
        try:
            state, error = await self._calls.run(partial(checker.check, message), source)
        finally:
            question = self._checks.answer(message.msg_id)
        outcome = outcome_of_check(self._group, question.header, question.message, question.address, state, error)
        await self._outcomes.tell(outcome)

    async def _send(self, outcome: Outcome) -> None:
        """Write END_TRANSACTION to the broker, one-way as in the Java client."""
        remoting = self._instance.remoting
        address = outcome.address or self._instance.address_of(outcome.broker_name)
        command = request_command(RequestCode.END_TRANSACTION, outcome.header)
        command.flag = ONEWAY_FLAG
        command.remark = outcome.remark
        connection = await remoting.connect(address, self._settings.connect_timeout)
        connection.write(remoting.frame(command, connection.take_opaque()))
        if self._trace is not None:
            self._trace.transaction_ended(without_namespace(self._settings.namespace, self._group), outcome, address)
        if connection.is_paused:
            await connection.drained()

    def _broker_name(self, address: str) -> str:
        """Return the name of the broker at an address, empty if unknown.

        4.9 brokers do not name themselves in a check.
        """
        names = (name for name, known in self._instance.master_addresses().items() if known == address)
        return next(names, "")
