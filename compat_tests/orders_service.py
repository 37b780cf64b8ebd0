"""A service that saves orders in PostgreSQL and announces them: row and message, or neither. A recipe, and its test.

The half message is stored first, then the row is committed, then the message. Whatever the process does not live to
say, ``check`` reads from the table: the row holds the id of its message, so it proves that this transaction, and not
another one for the same order, was committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Engine, String, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from gateway.client import Message, ReceivedMessage, TransactionProducer, TransactionState

GIVE_UP_AFTER_S = 2.0
"""Longer than any of our database transactions takes."""


class Table(DeclarativeBase):
    """All tables."""


class Order(Table):
    """One order, and which message announces it."""

    __tablename__ = "orders"

    number: Mapped[str] = mapped_column(String(40), primary_key=True)
    product: Mapped[str] = mapped_column(String(40))
    message_id: Mapped[str] = mapped_column(String(56), unique=True)


class OrderChecker:
    """Answers for orders whose outcome the broker does not know: in any process of the service."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock

    def check(self, message: ReceivedMessage) -> TransactionState:
        """A row is the proof; without one the transaction failed, unless it may still be running."""
        with Session(self._engine) as session:
            saved = session.scalar(select(Order.number).where(Order.message_id == message.msg_id))
        if saved is not None:
            return TransactionState.COMMIT
        age_s = self._clock() - message.born_at_ms / 1000
        return TransactionState.UNKNOWN if age_s < GIVE_UP_AFTER_S else TransactionState.ROLLBACK


class Orders:
    """Places orders."""

    def __init__(self, engine: Engine, producer: TransactionProducer, topic: str) -> None:
        self._engine = engine
        self._producer = producer
        self._topic = topic

    def place(self, number: str, product: str) -> None:
        """Save an order and announce it.

        An exception of the database leaves the outcome open: the checker finds no row, and the message is dropped.
        """
        message = Message(self._topic, product.encode(), keys=number)
        with self._producer.begin(message) as transaction, Session(self._engine) as session:
            session.add(Order(number=number, product=product, message_id=transaction.msg_id))
            session.commit()
            transaction.commit()
