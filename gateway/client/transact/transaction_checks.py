"""The checks a producer has been asked for and has not answered: one for each transaction, and no more than a limit.

Pure. A broker that does not get an answer asks again, and one that stores half messages anew for each check (Apache
RocketMQ) asks about another place each time. One call of the checker answers all of them: the newest question counts,
the older ones are about places that are no longer looked at.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

Q = TypeVar("Q")


class AskedCheck(Enum):
    """What came of a question."""

    NEW = "the checker has to be called"
    JOINED = "its answer will be that of a check already under way"
    REFUSED = "too many are waiting: the broker asks again later"


class TransactionChecks(Generic[Q]):
    """Questions by transaction.

    :param limit: transactions that may wait at once, upstream's ``checkRequestHoldMax``.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._newest: dict[str, Q] = {}
        self.joined = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._newest)

    def ask(self, transaction: str, question: Q) -> AskedCheck:
        """Take a question in."""
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
        """The question to answer now that the checker has decided; the next one of this transaction is new again."""
        return self._newest.pop(transaction)
