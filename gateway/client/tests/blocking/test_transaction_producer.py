"""The blocking transaction producer against a gateway of its own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from gateway.client import AdminClient, Message, ReceivedMessage, TransactionProducer
from gateway.client.errors import ClientClosed
from gateway.client.testing.server import GatewayServer
from gateway.client.transact.transaction import AlreadyDecided
from gateway.client.transaction_state import TransactionState

_groups = itertools.count(1)


class Bank:
    def __init__(self) -> None:
        self.threads: list[str] = []
        self.checked = threading.Event()

    def execute(self, message: Message, arg: object) -> TransactionState:
        self.threads.append(threading.current_thread().name)
        if isinstance(arg, Exception):
            raise arg
        assert isinstance(arg, TransactionState)
        return arg

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.threads.append(threading.current_thread().name)
        self.checked.set()
        return TransactionState.COMMIT


@pytest.fixture(scope="module")
def server() -> Iterator[GatewayServer]:
    with GatewayServer(settings={"transactionTimeOut": "200", "transactionCheckInterval": "200"}) as running:
        yield running


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def producer(server: GatewayServer, bank: Bank) -> Iterator[TransactionProducer]:
    group = f"bank{next(_groups)}"  # one for each test: no test is asked about what another one left open
    with TransactionProducer(group, bank, namesrv=server.nameserver) as running:
        yield running


def test_transactions_run_in_the_calling_thread_and_checks_in_another(
    server: GatewayServer, producer: TransactionProducer, bank: Bank
) -> None:
    assert producer.send_in_transaction(Message("paid", b"1"), TransactionState.COMMIT).state is TransactionState.COMMIT
    assert not bank.checked.is_set()
    result = producer.send_in_transaction(Message("paid", b"2"), ValueError("no money"))
    assert result.state is TransactionState.UNKNOWN
    assert isinstance(result.error, ValueError)
    assert bank.checked.wait(20)
    assert bank.threads == [threading.current_thread().name] * 2 + [f"checks of {producer.group}-1"]


def test_a_block_decides_once_and_says_what_became_of_it(producer: TransactionProducer) -> None:
    message = Message("paid", b"3")
    with producer.begin(message) as transaction:
        assert (transaction.state, transaction.message) == (None, message)
        assert transaction.msg_id == transaction.half.msg_id
        transaction.rollback()
        with pytest.raises(AlreadyDecided):
            transaction.commit()
    assert transaction.state is TransactionState.ROLLBACK
    assert "ROLLBACK" in repr(transaction)


def test_a_block_without_a_verdict_is_unknown_whatever_ends_it(producer: TransactionProducer) -> None:
    with producer.begin(Message("paid", b"4")) as silent:
        pass
    with pytest.raises(KeyboardInterrupt), producer.begin(Message("paid", b"5")) as broken:
        raise KeyboardInterrupt
    assert [silent.state, broken.state] == [TransactionState.UNKNOWN] * 2


def test_an_asynchronous_listener_runs_on_the_clients_own_loop(server: GatewayServer) -> None:
    class Asynchronous:
        async def execute(self, message: Message, arg: object) -> TransactionState:
            return TransactionState.ROLLBACK

        async def check(self, message: ReceivedMessage) -> TransactionState:
            return TransactionState.ROLLBACK

    with TransactionProducer("other", Asynchronous(), namesrv=server.nameserver) as producer:
        assert producer.send_in_transaction(Message("paid", b"6")).state is TransactionState.ROLLBACK


def test_ordinary_messages_can_be_sent_too(server: GatewayServer, producer: TransactionProducer) -> None:
    result = producer.send(Message("plain", b"7"))
    with AdminClient(namesrv=server.nameserver) as admin:
        assert admin.messages.by_offset(result.queue, result.queue_offset).body == b"7"


def test_after_close_nothing_begins_and_an_open_block_is_left_to_the_check(server: GatewayServer, bank: Bank) -> None:
    producer = TransactionProducer("closing", bank, namesrv=server.nameserver)
    producer.start()
    with producer.begin(Message("paid", b"8")):
        producer.close()
    with pytest.raises(ClientClosed):
        producer.prepare(Message("paid", b"9"))
