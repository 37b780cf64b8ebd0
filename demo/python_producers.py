"""Producers of this package's own client, in this process."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from demo.orders import Orders, Shop
from gateway.client import Message, ReceivedMessage, TransactionProducer, TransactionState

CUSTOMERS = ("ada", "bell", "curie", "darwin")
PAUSE_S = 0.004
"""Between two orders of a producer: this shows what happens, not how fast."""
_ROLLED_BACK = 0.15
_FORGOTTEN = 0.1


@contextmanager
def python_producers(shop: Shop) -> Iterator[PythonProducers]:
    """A producer for each group, started; closed with the block."""
    checker = _Checker(shop.orders)
    with ExitStack() as stack:
        producers = [
            stack.enter_context(TransactionProducer(group, checker, namesrv=shop.nameserver)) for group in shop.groups
        ]
        yield PythonProducers(producers, shop)


class _Checker:
    """Answers the broker."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT if self._orders.asked(message.msg_id) else TransactionState.ROLLBACK


class PythonProducers:
    """Places orders from one thread for each producer."""

    name = "Python"

    def __init__(self, producers: Sequence[TransactionProducer], shop: Shop) -> None:
        self._producers = producers
        self._orders = shop.orders
        self._topic = shop.topic
        self._lock = threading.Lock()
        self._chance = random.Random(7)
        self._count = 0

    def trade(self, seconds: float) -> None:
        """Place orders for so long, at least one from each producer."""
        end = time.monotonic() + seconds
        with ThreadPoolExecutor(len(self._producers)) as threads:
            trades = [
                threads.submit(self._trade, producer, end, random.Random(number))
                for number, producer in enumerate(self._producers)
            ]
        for trade in trades:
            trade.result()

    def _trade(self, producer: TransactionProducer, end: float, chance: random.Random) -> None:
        while True:
            self._place(producer, chance)
            if time.monotonic() >= end:
                return
            time.sleep(PAUSE_S)  # noqa: TID251

    def _place(self, producer: TransactionProducer, chance: random.Random) -> None:
        key, body = self._new_order()
        with producer.begin(Message(self._topic, body, tags="new", keys=[key])) as transaction:
            draw = chance.random()
            if draw < _FORGOTTEN:  # the block ends without an outcome
                self._orders.forget(transaction.msg_id, is_committed=draw < _FORGOTTEN / 2)
                return
            is_committed = draw >= _FORGOTTEN + _ROLLED_BACK
            self._orders.note(transaction.msg_id, is_committed=is_committed)
            if is_committed:
                transaction.commit()
            else:
                transaction.rollback()

    def _new_order(self) -> tuple[str, bytes]:
        """Key and body of the next order."""
        with self._lock:
            self._count += 1
            key = f"order-{self._count}"
            customer, total = self._chance.choice(CUSTOMERS), round(self._chance.uniform(1, 200), 2)
        return key, json.dumps({"order_id": key, "customer": customer, "total": total}).encode()
