"""What a listener raises to get messages again later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage


class RetryLater(Exception):
    """Raised by a listener: these messages are to be delivered again.

    Any other exception does the same for all messages of the call, with the broker's choice of time, and is logged
    with its traceback; this one is logged as a line.

    :param delay_level: 1 … 18 for one of the broker's delay levels (1 s 5 s 10 s 30 s 1 m … 2 h); 0 lets the broker
        choose, longer each time; −1 makes them dead letters at once. An orderly consumer ignores it: it pauses the
        queue for ``suspend_current_queue_time``.
    :param messages: those of a batch that failed, the others count as consumed; None: all of them. An orderly
        consumer repeats the batch from the first of them on.
    """

    def __init__(self, delay_level: int = 0, *, messages: Sequence[ReceivedMessage] | None = None) -> None:
        super().__init__(delay_level, messages)
        self.delay_level = delay_level
        self.messages = messages

    def __str__(self) -> str:
        which = "all messages" if self.messages is None else f"{len(self.messages)} messages"
        return f"{which} again later (delay level {self.delay_level})"
