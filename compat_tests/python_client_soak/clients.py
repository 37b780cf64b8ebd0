"""Producers and consumers of every kind, each with its own thread, until they are told to stop."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager

from compat_tests.python_client_soak.account import Account, Fate
from gateway.client import (
    BrokerError,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RocketMQError,
    SendResult,
    SimpleConsumer,
    SimpleSettings,
    TransactionProducer,
    TransactionState,
)
from wire.codes import ResponseCode

SYNC, ASYNC, TRANSACTIONS = "soak_sync", "soak_async", "soak_transactions"
PUSH, LITE, SIMPLE = "push", "lite pull", "simple"
READERS = {SYNC: (PUSH, SIMPLE), ASYNC: (LITE,), TRANSACTIONS: (PUSH,)}
"""Who reads which topic."""
_IN_FLIGHT = 200
_INVISIBLE_S = 60.0
_BODY_BYTES = 128


def body(number: int) -> bytes:
    """The body of a message: its number, filled up."""
    return (b"%d|" % number).ljust(_BODY_BYTES, b"x")


def number_of(message: ReceivedMessage) -> int:
    """The number in a body."""
    return int(message.body.split(b"|")[0])


class Clients:
    """All of them.

    :param accounts: by topic.
    :param per_second: messages of the blocking and the asynchronous producer each; transactions are a tenth of it.
    """

    def __init__(self, nameserver: str, accounts: dict[str, Account], per_second: float) -> None:
        self.failures: list[str] = []
        """What was raised, as text; at most a hundred."""
        self.ended: list[str] = []
        """Producers and consumers that ended of something they should not have met, with where that was."""
        self.left_out: list[str] = []
        """What the server cannot do."""
        self.slowest_s = 0.0
        """The longest call of a producer."""
        self._nameserver = nameserver
        self._accounts = accounts
        self._pause_s = 1.0 / per_second
        self._enough = threading.Event()
        self._over = threading.Event()
        self._sent_all = threading.Semaphore(0)
        self._stack = ExitStack()
        self._senders: list[threading.Thread] = []
        self._readers: list[threading.Thread] = []

    def start(self) -> None:
        """Connect everyone, consumers first, and begin."""
        accounts, nameserver = self._accounts, self._nameserver
        push = PushSettings(namesrv=nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET, consume_workers=4)
        for topic in (SYNC, TRANSACTIONS):
            listener = _listener(accounts[topic])
            group = f"push_{topic}"
            self._stack.enter_context(PushConsumer(group, listener, push, subscriptions={topic: "*"}))
        self._readers = [self._thread(self._read_lite), self._thread(self._read_simple)]
        self._senders = [
            self._thread(self._send_sync),
            self._thread(self._send_async),
            self._thread(self._send_transactions),
        ]
        for thread in (*self._readers, *self._senders):
            thread.start()

    def drain(self, timeout_s: float) -> None:
        """Wait until everybody has read what is there."""
        end = time.monotonic() + timeout_s
        while any(account.unread for account in self._accounts.values()) and time.monotonic() < end:
            self._over.wait(0.2)

    def stop_sending(self) -> None:
        """Let producers end."""
        self._enough.set()
        for _ in self._senders:
            assert self._sent_all.acquire(timeout=60), "a producer does not end"
        assert not self.ended, "\n".join(self.ended)

    def stop(self) -> None:
        """Let consumers end."""
        self._enough.set()
        self._over.set()
        for thread in (*self._senders, *self._readers):
            thread.join(60)
            assert not thread.is_alive(), f"{thread.name} does not end"
        self._stack.close()
        assert not self.ended, "\n".join(self.ended)

    # --- producers ------------------------------------------------------------------------------------------

    def _send_sync(self) -> None:
        account = self._accounts[SYNC]
        with Producer("soak_sync", namesrv=self._nameserver) as producer:
            for number in self._numbers(account, self._pause_s):
                try:
                    with self._timed():
                        producer.send(Message(SYNC, body(number), keys=f"k{number}"))
                except RocketMQError as error:
                    self._note(error)
                    account.settle(number, Fate.UNCERTAIN)
                else:
                    account.settle(number, Fate.WANTED)
        self._sent_all.release()

    def _send_async(self) -> None:
        account = self._accounts[ASYNC]
        room = threading.Semaphore(_IN_FLIGHT)
        with Producer("soak_async", namesrv=self._nameserver) as producer:
            for number in self._numbers(account, self._pause_s):
                room.acquire()
                future = producer.send_async(Message(ASYNC, body(number)))

                def settle(done: Future[SendResult], number: int = number) -> None:
                    room.release()
                    error = done.exception()
                    if error is not None:
                        self._note(error)
                    account.settle(number, Fate.WANTED if error is None else Fate.UNCERTAIN)

                future.add_done_callback(settle)
            for _ in range(_IN_FLIGHT):
                assert room.acquire(timeout=60), "a send has neither a result nor an error"
        self._sent_all.release()

    def _send_transactions(self) -> None:
        account = self._accounts[TRANSACTIONS]
        draw = random.Random(7)
        with TransactionProducer("soak_transactions", _Checker(), namesrv=self._nameserver) as producer:
            for number in self._numbers(account, self._pause_s * 10):
                state = TransactionState.COMMIT if number % 3 else TransactionState.ROLLBACK
                message = Message(TRANSACTIONS, body(number), keys=str(number))
                try:
                    with self._timed(), producer.begin(message) as transaction:
                        if draw.random() < 0.1:
                            pass  # the broker asks
                        elif state is TransactionState.COMMIT:
                            transaction.commit()
                        else:
                            transaction.rollback()
                except RocketMQError as error:
                    self._note(error)
                    account.settle(number, Fate.UNCERTAIN)
                else:
                    account.settle(number, Fate.WANTED if state is TransactionState.COMMIT else Fate.UNWANTED)
            self._sent_all.release()
            self._over.wait()  # until then it answers for those that had no verdict

    def _numbers(self, account: Account, pause_s: float) -> Iterator[int]:
        while not self._enough.wait(pause_s):
            yield account.begin()

    # --- consumers ------------------------------------------------------------------------------------------

    def _read_lite(self) -> None:
        account = self._accounts[ASYNC]
        settings = LitePullSettings(namesrv=self._nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
        with LitePullConsumer("lite_" + ASYNC, settings, subscriptions={ASYNC: "*"}) as consumer:
            while not self._over.is_set():
                for message in consumer.poll(1.0):
                    account.receive(LITE, number_of(message))

    def _read_simple(self) -> None:
        account = self._accounts[SYNC]
        settings = SimpleSettings(namesrv=self._nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
        with SimpleConsumer("simple_" + SYNC, settings, subscriptions={SYNC: "*"}) as consumer:
            while not self._over.is_set():
                try:
                    messages = consumer.receive(32, invisible_time=_INVISIBLE_S, timeout=1.0)
                    for message in messages:  # before the acknowledgement, whose answer may get lost
                        account.receive(SIMPLE, number_of(message))
                    consumer.ack(messages)
                except BrokerError as error:
                    if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                        self.left_out.append(f"the simple consumer: {error}")
                        account.forget(SIMPLE)
                        return
                    self._note(error)
                except RocketMQError as error:
                    self._note(error)
                    self._over.wait(0.5)

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except Exception:
                self.ended.append(f"{work.__name__} ended: {traceback.format_exc()}")
                self._sent_all.release()
                raise

        return threading.Thread(target=guarded, name=work.__name__, daemon=True)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def _note(self, error: BaseException) -> None:
        if len(self.failures) < 100:
            self.failures.append(f"{type(error).__name__}: {error}")


class _Checker:
    """Answers for transactions whose block ended without a verdict."""

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT if number_of(message) % 3 else TransactionState.ROLLBACK


def _listener(account: Account) -> Callable[[ReceivedMessage], None]:
    def listen(message: ReceivedMessage) -> None:
        account.receive(PUSH, number_of(message))

    return listen
