"""The state of a queue, or of all queues of a broker, that a push consumer pops: what it has of it and has not done.

To ``concurrent_turns`` it looks as a ``ProcessQueue`` does, but there is no offset to commit: finished messages are
acknowledged one by one, in any order. Times are arguments, in seconds of the event loop's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from gateway.client.consume.process_queue import Turn

if TYPE_CHECKING:
    from gateway.client.consume.pop.popped import PoppedMessage
    from gateway.client.message import ReceivedMessage
    from gateway.client.message_queue import MessageQueue

POP_EXPIRES_S: Final = 120.0
"""A queue that was not popped for so long is given up and taken anew, as one that is pulled."""


class PopQueue:
    """See the module."""

    __slots__ = ("_done", "consumed_at", "is_given_up", "popped_at", "queue", "waiting")

    dropped = False
    """What was popped belongs to this client whoever pops next, so its results always count."""
    paused = False

    def __init__(self, queue: MessageQueue, *, now: float) -> None:
        self.queue = queue
        self.waiting = 0
        """Messages that are neither consumed nor given back."""
        self.popped_at = now
        self.consumed_at = now
        self.is_given_up = False
        self._done: list[PoppedMessage] = []

    def add(self, messages: Sequence[PoppedMessage], turn_messages: int) -> list[Turn]:
        """Take what a pop brought, as turns of at most ``turn_messages``."""
        turns: list[Turn] = []
        for start in range(0, len(messages), turn_messages):
            portion = messages[start : start + turn_messages]
            turn = Turn(portion, portion[0].queue_offset, portion[-1].queue_offset, 0)
            turn.lapses_at = min(message.hidden_until for message in portion)
            turns.append(turn)
        self.waiting += len(messages)
        return turns

    def settle(self, turn: Turn) -> None:
        """A turn is finished: what was not given back is to be acknowledged."""
        if turn.settled:
            return
        turn.settled = True
        self.waiting -= len(turn.messages)
        messages = cast("Sequence[PoppedMessage]", turn.messages)  # ``add`` took such
        self._done += [message for message in messages if not message.given_back]

    def keep(self, turn: Turn, messages: Sequence[ReceivedMessage]) -> None:
        """Only these are left to be done; nothing is left of popped messages, which come again by themselves."""
        assert not messages, "whoever gives popped messages back takes all of them"
        self.settle(turn)

    def take_done(self, now: float) -> tuple[list[PoppedMessage], list[PoppedMessage]]:
        """What is to be acknowledged now, and what would be too late: others may have it already."""
        done, self._done = self._done, []
        return (
            [message for message in done if message.hidden_until > now],
            [message for message in done if message.hidden_until <= now],
        )

    def drop(self) -> None:
        """Give it up: nothing more is popped."""
        self.is_given_up = True

    def is_pull_expired(self, now: float) -> bool:
        """Whether popping has stopped for no reason: the queue should be taken anew."""
        return now - self.popped_at > POP_EXPIRES_S

    def __repr__(self) -> str:
        return f"<PopQueue {self.queue}, {self.waiting} messages waiting>"
