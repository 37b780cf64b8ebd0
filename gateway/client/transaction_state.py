"""What a local transaction came to, and who is asked about it: the words a user of transactions speaks.

The half message, its place and its outcome on the wire are in ``transaction_outcome``; sending is in
``aio.transaction_producer``. The numbers are those of upstream's ``TransactionProducer``: a listener that says nothing,
raises, or is not there has said UNKNOWN, never COMMIT.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from wire.message.flags import SysFlag

if TYPE_CHECKING:
    from gateway.client.message import Message, ReceivedMessage


class TransactionState(Enum):
    """What became of a local transaction."""

    COMMIT = SysFlag.TRANSACTION_COMMIT
    """The half message is delivered."""
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK
    """The half message is dropped."""
    UNKNOWN = SysFlag.TRANSACTION_NONE
    """Left to a later check: the broker asks any producer of the group."""


Verdict: TypeAlias = TransactionState | Awaitable[TransactionState]
"""What a listener may return: a state, or from an ``async def`` an awaitable one."""


class TransactionChecker(Protocol):
    """Answers for transactions of the group whose outcome the broker does not know.

    It is called for half messages of *any* producer of the group, also of one that has crashed: it must read the answer
    from what the local transaction wrote (a row, a file), not from memory.
    """

    def check(self, message: ReceivedMessage) -> Verdict:
        """The state of the transaction of a half message. An exception counts as UNKNOWN.

        A transaction that may still be running is UNKNOWN; one that left no trace and cannot any more is ROLLBACK.
        """


class TransactionListener(TransactionChecker, Protocol):
    """A checker that also runs the local transactions of ``send_in_transaction``."""

    def execute(self, message: Message, arg: object) -> Verdict:
        """Run the local transaction; the half message is stored. An exception counts as UNKNOWN."""


def state_of(value: object, source: str) -> TransactionState:
    """What a listener returned, checked.

    :param source: who returned it, for the error: ``"Orders.check"``.
    :raises TypeError: not a ``TransactionState``; ``None`` is the usual case, of a listener without ``return``.
    """
    if isinstance(value, TransactionState):
        return value
    raise TypeError(
        f"{source} returned {value!r:.64}, not a TransactionState: return TransactionState.COMMIT, ROLLBACK or UNKNOWN"
    )


def source_of(execute: Callable[[Message, object], Any]) -> str:
    """Who runs local transactions, for logs and errors: ``"Orders.execute"``."""
    owner = getattr(execute, "__self__", None)
    return f"{type(owner).__name__}.execute" if owner is not None else "execute"
