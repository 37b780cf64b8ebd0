"""The state of a queue, or of all queues of a broker, that a push consumer pops: its unfinished messages.

``concurrent_turns`` uses a ``PopQueue`` like a ``ProcessQueue``, but there is no offset to commit: finished messages
are acknowledged one by one, in any order. Times are arguments, in seconds of the event loop's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from gateway.client.consume.process_queue import Turn

if TYPE_CHECKING:
    from gateway.client.consume.pop.pop_handles import PoppedMessage
    from gateway.client.message import ReceivedMessage
    from gateway.client.message_queue import MessageQueue

POP_EXPIRES_S: Final = 120.0
"""Seconds without a pop after which a queue is given up and taken again, as a pulled queue is."""


class PopQueue:
    """A queue that is popped, with the number of messages that wait and the messages to acknowledge."""

    __slots__ = ("_done", "consumed_at", "is_given_up", "popped_at", "queue", "waiting")

    dropped = False
    """Always False: popped messages belong to this client whoever pops next, so their results always count."""
    paused = False

    def __init__(self, queue: MessageQueue, *, now: float) -> None:
        self.queue = queue
        self.waiting = 0
        """The number of messages that are neither consumed nor given back."""
        self.popped_at = now
        self.consumed_at = now
        self.is_given_up = False
        self._done: list[PoppedMessage] = []

    def add(self, messages: Sequence[PoppedMessage], turn_messages: int) -> list[Turn]:
        """Take the messages of a pop, and return them as turns of at most ``turn_messages``."""
        turns: list[Turn] = []
        for start in range(0, len(messages), turn_messages):
            portion = messages[start : start + turn_messages]
            turn = Turn(portion, portion[0].queue_offset, portion[-1].queue_offset, 0)
            turn.lapses_at = min(message.hidden_until for message in portion)
            turns.append(turn)
        self.waiting += len(messages)
        return turns

    def settle(self, turn: Turn) -> None:
        """Finish a turn: messages that were not given back are acknowledged next."""
        if turn.settled:
            return
        turn.settled = True
        self.waiting -= len(turn.messages)
        messages = cast("Sequence[PoppedMessage]", turn.messages)  # ``add`` took such
        self._done += [message for message in messages if not message.given_back]

    def keep(self, turn: Turn, messages: Sequence[ReceivedMessage]) -> None:
        """Finish a turn; ``messages`` must be empty, because popped messages come again without help from here."""
        assert not messages, "whoever gives popped messages back takes all of them"
        self.settle(turn)

    def take_done(self, now: float) -> tuple[list[PoppedMessage], list[PoppedMessage]]:
        """Return the messages to acknowledge now, and the late messages, which other members may have already."""
        done, self._done = self._done, []
        return (
            [message for message in done if message.hidden_until > now],
            [message for message in done if message.hidden_until <= now],
        )

    def drop(self) -> None:
        """Give the queue up: nothing more is popped."""
        self.is_given_up = True

    def is_pull_expired(self, now: float) -> bool:
        """Return whether popping has stopped without a reason, so that the queue should be taken again."""
        return now - self.popped_at > POP_EXPIRES_S

    def __repr__(self) -> str:
        return f"<PopQueue {self.queue}, {self.waiting} messages waiting>"
