"""The shop of the demonstration: orders as transactions, of which some are rolled back and some forgotten."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence

from gateway.client import Message, ReceivedMessage, TransactionProducer, TransactionState

CUSTOMERS = ("ada", "bell", "curie", "darwin")
PAUSE_S = 0.004
"""Between two orders of a producer: this shows what happens, not how fast."""
_ROLLED_BACK = 0.15
_FORGOTTEN = 0.1


class Orders:
    """What the shop knows of its orders; it answers the broker's checks from that, as a database would."""

    def __init__(self) -> None:
        self.committed: set[str] = set()
        self.rolled_back: set[str] = set()
        self.forgotten: dict[str, bool] = {}
        """Orders whose outcome the broker was not told, and what it is."""
        self.checks = 0
        self._lock = threading.Lock()
        self._chance = random.Random(7)
        self._count = 0

    def check(self, message: ReceivedMessage) -> TransactionState:
        """The broker asks what became of an order."""
        with self._lock:
            self.checks += 1
            is_committed = self.forgotten.pop(message.msg_id, message.msg_id in self.committed)
        self.note(message.msg_id, is_committed=is_committed)
        return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK

    def note(self, msg_id: str, *, is_committed: bool) -> None:
        """Keep what became of an order."""
        with self._lock:
            (self.committed if is_committed else self.rolled_back).add(msg_id)

    def new_order(self) -> bytes:
        """The body of the next order."""
        with self._lock:
            self._count += 1
            order = {
                "order_id": f"order-{self._count}",
                "customer": self._chance.choice(CUSTOMERS),
                "total": round(self._chance.uniform(1, 200), 2),
            }
        return json.dumps(order).encode()

    def summary(self) -> str:
        """What the producers did, in a line."""
        counts = (len(self.committed), len(self.rolled_back), len(self.forgotten))
        return "{:,} committed, {:,} rolled back, {:,} forgotten".format(*counts)


def place_orders(producers: Sequence[TransactionProducer], orders: Orders, topic: str, seconds: float) -> None:
    """Place orders from one thread for each producer, for so long."""
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_trade, args=(producer, orders, topic, end, random.Random(number)))
        for number, producer in enumerate(producers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _trade(producer: TransactionProducer, orders: Orders, topic: str, end: float, chance: random.Random) -> None:
    while time.monotonic() < end:
        body = orders.new_order()
        with producer.begin(Message(topic, body, tags="new", keys=[json.loads(body)["order_id"]])) as transaction:
            draw = chance.random()
            if draw < _FORGOTTEN:
                orders.forgotten[transaction.msg_id] = chance.random() < 0.5  # the block ends without an outcome
                continue
            is_committed = draw >= _FORGOTTEN + _ROLLED_BACK
            orders.note(transaction.msg_id, is_committed=is_committed)
            if is_committed:
                transaction.commit()
            else:
                transaction.rollback()
        time.sleep(PAUSE_S)  # noqa: TID251
