"""The states of a local transaction, and the interfaces of the objects that answer for transactions.

Half messages, their places and their outcomes on the wire are in ``transaction_outcome``; ``transact`` sends them. The
numbers are those of upstream's ``TransactionProducer``. A listener that returns nothing, raises, or
is missing counts as UNKNOWN, never as COMMIT.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from wire.message.flags import SysFlag

if TYPE_CHECKING:
    from gateway.client.message import Message, ReceivedMessage


class TransactionState(Enum):
    """The result of a local transaction."""

    COMMIT = SysFlag.TRANSACTION_COMMIT
    """The half message is delivered."""
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK
    """The half message is dropped."""
    UNKNOWN = SysFlag.TRANSACTION_NONE
    """The decision is left to a later check: the broker asks any producer of the group."""


Verdict: TypeAlias = TransactionState | Awaitable[TransactionState]
"""The return value of a listener: a state, or an awaitable state from an ``async def``."""


class TransactionChecker(Protocol):
    """An object that answers for the group's transactions whose outcome the broker does not know.

    The checker is called for half messages of *any* producer of the group, including a producer that has crashed. So it
    must find the answer in what the local transaction wrote (a row, a file), not in memory.
    """

    def check(self, message: ReceivedMessage) -> Verdict:
        """Return the state of the transaction of a half message. An exception counts as UNKNOWN.

        Return UNKNOWN for a transaction that may still be running. Return ROLLBACK for a transaction that left no trace
        and cannot leave one any more.
        """


class TransactionListener(TransactionChecker, Protocol):
    """A checker that also runs the local transactions of ``send_in_transaction``."""

    def execute(self, message: Message, arg: object) -> Verdict:
        """Run the local transaction; the half message is stored. An exception counts as UNKNOWN."""


def state_of(value: object, source: str) -> TransactionState:
    """Return the value that a listener returned, after a check of its type.

    :param source: the name of the listener's method, for the error: ``"Orders.check"``.
    :raises TypeError: not a ``TransactionState``; usually ``None``, from a listener without ``return``.
    """
    if isinstance(value, TransactionState):
        return value
    raise TypeError(
        f"{source} returned {value!r:.64}, not a TransactionState: return TransactionState.COMMIT, ROLLBACK or UNKNOWN"
    )


def source_of(execute: Callable[[Message, object], Any]) -> str:
    """Return the name of the method that runs local transactions, for logs and errors: ``"Orders.execute"``."""
    owner = getattr(execute, "__self__", None)
    return f"{type(owner).__name__}.execute" if owner is not None else "execute"
