"""The checks that a producer has received and not answered: one for each transaction, up to a limit.

Pure. A broker that gets no answer asks again. A broker that stores half messages anew for each check (Apache RocketMQ)
asks about another place each time. One call of the checker answers all these questions. Only the newest question is
answered, since the older questions are about places that the broker no longer looks at.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

Q = TypeVar("Q")


class AskedCheck(Enum):
    """The way in which a question was taken."""

    NEW = "the checker has to be called"
    JOINED = "its answer will be that of a check already under way"
    REFUSED = "too many are waiting: the broker asks again later"


class TransactionChecks(Generic[Q]):
    """The open questions by transaction.

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
