"""The result of one call of a listener, and the exception with which a listener asks for messages again later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage


class RetryLater(Exception):
    """An exception that a listener raises to get messages again later.

    Any other exception also brings back all messages of the call, at a time that the broker chooses, and is logged with
    its traceback. ``RetryLater`` is logged as one line.

    :param delay_level: 1 … 18 for one of the broker's delay levels (1 s 5 s 10 s 30 s 1 m … 2 h); 0 lets the broker
        choose, longer each time; −1 makes the messages dead letters at once. An orderly consumer ignores the level: it
        pauses the queue for ``suspend_current_queue_time``.
    :param messages: the failed messages of a batch, the other messages count as consumed; None: all messages. An
        orderly consumer repeats the batch from the first of the failed messages on.
    """

    def __init__(self, delay_level: int = 0, *, messages: Sequence[ReceivedMessage] | None = None) -> None:
        super().__init__(delay_level, messages)
        self.delay_level = delay_level
        self.messages = messages

    def __str__(self) -> str:
        which = "all messages" if self.messages is None else f"{len(self.messages)} messages"
        return f"{which} again later (delay level {self.delay_level})"


@dataclass(frozen=True, slots=True)
class ListenerOutcome:
    """The result for the messages of one call: ``failed`` messages come again, the other messages are consumed."""

    failed: Sequence[ReceivedMessage] = ()
    delay_level: int = 0
    error: BaseException | None = None


CONSUMED: Final = ListenerOutcome()
LAPSED: Final = ListenerOutcome()
"""The result if the listener was not called, because other members may have the messages by now."""
