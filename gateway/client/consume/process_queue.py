"""The state of one assigned queue: messages that are pulled but not consumed yet, limits, the offset to commit.

Messages are cut into *turns*: a turn is what a listener gets in one call. A turn counts as a whole until it is settled,
but failed messages of a turn may stay. Turns finish in any order. The offset to commit is the offset of the first
message that is not finished, as in upstream's ``ProcessQueue``. No I/O and no clock here: times are arguments, in
seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage
    from gateway.client.message_queue import MessageQueue

LOCK_LIVES_S: Final = 30.0
"""Seconds that a client trusts its lock of a queue without renewing it (upstream ``REBALANCE_LOCK_MAX_LIVE_TIME``)."""
PULL_EXPIRES_S: Final = 120.0
"""Seconds without a pull after which a queue is given up and taken again (upstream ``PULL_MAX_IDLE_TIME``)."""
MIB: Final = 1024 * 1024
NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """The limits of one queue: messages, MiB, and the distance between its first and last offset (None: no limit)."""

    messages: int = 1000
    mib: int = 100
    span: int | None = 2000


class Turn:
    """Messages of one queue that a listener gets in one call, in offset order.

    A plain class for speed: one is made for every call of a listener.
    """

    __slots__ = ("byte_count", "first_offset", "lapses_at", "last_offset", "messages", "settled", "started_at")

    def __init__(
        self, messages: Sequence[ReceivedMessage], first_offset: int, last_offset: int, byte_count: int
    ) -> None:
        self.messages = messages
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.byte_count = byte_count
        self.started_at: float | None = None
        """The time when a listener got the turn, in seconds of the event loop's clock; None while the turn waits."""
        self.settled = False
        self.lapses_at = NEVER
        """The time from which other consumers may get the messages, in seconds of the event loop's clock."""

    def __repr__(self) -> str:
        return f"<Turn of {len(self.messages)} messages, offsets {self.first_offset} to {self.last_offset}>"


class ProcessQueue:
    """A queue while it is assigned to this client.

    :param next_offset: the offset of the first pull.
    """

    __slots__ = (
        "_turns",
        "cached_bytes",
        "cached_messages",
        "consumed_at",
        "dropped",
        "locked_at",
        "next_offset",
        "paused",
        "pulled_at",
        "queue",
    )

    def __init__(self, queue: MessageQueue, next_offset: int, *, now: float) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.dropped = False
        """True if the queue is given up: nothing more is pulled, and messages still being consumed change no offset."""
        self.paused = False
        self.cached_messages = 0
        self.cached_bytes = 0
        self.pulled_at = now
        self.consumed_at = now
        self.locked_at: float | None = None
        """The time when the broker last granted the lock of the queue, in seconds; None without the lock."""
        self._turns: deque[Turn] = deque()

    def add(self, messages: Sequence[ReceivedMessage], sizes: Sequence[int], turn_messages: int) -> list[Turn]:
        """Take the messages of a pull, and return them as turns of at most ``turn_messages``.

        :param messages: with ascending offsets, all after the messages already held.
        :param sizes: the size of each message in bytes.
        """
        turns: list[Turn] = []
        for start in range(0, len(messages), turn_messages):
            portion = messages[start : start + turn_messages]
            byte_count = sum(sizes[start : start + turn_messages])
            turns.append(Turn(portion, portion[0].queue_offset, portion[-1].queue_offset, byte_count))
            self.cached_bytes += byte_count
        self.cached_messages += len(messages)
        self._turns += turns
        return turns

    def settle(self, turn: Turn) -> None:
        """Finish a turn: its messages are consumed, sent back or given up."""
        if turn.settled:
            return
        turn.settled = True
        self.cached_messages -= len(turn.messages)
        self.cached_bytes -= turn.byte_count
        turns = self._turns
        while turns and turns[0].settled:
            turns.popleft()

    def keep(self, turn: Turn, messages: Sequence[ReceivedMessage]) -> None:
        """Reduce a turn to the messages that are not finished yet: some of its own messages, in their order."""
        if turn.settled or not messages:
            self.settle(turn)
            return
        self.cached_messages -= len(turn.messages) - len(messages)
        turn.messages = messages
        turn.first_offset = messages[0].queue_offset
        turn.last_offset = messages[-1].queue_offset

    def first_turn(self) -> Turn | None:
        """Return the turn that an orderly consumer must take next, None if the queue has no turns."""
        return self._turns[0] if self._turns else None

    @property
    def committable(self) -> int:
        """The offset before which everything is finished: the offset at which the group would continue."""
        return self._turns[0].first_offset if self._turns else self.next_offset

    @property
    def span(self) -> int:
        """The distance between the first and last offset held; 0 for one message or none."""
        return self._turns[-1].last_offset - self._turns[0].first_offset if self._turns else 0

    def excess(self, limits: CacheLimits) -> str | None:
        """Return the reason why nothing more may be pulled now, or None to continue.

        A value equal to its limit is not yet a reason, as upstream.
        """
        if self.cached_messages > limits.messages:
            return f"{self.cached_messages} messages are cached, the limit is {limits.messages}"
        if self.cached_bytes > limits.mib * MIB:
            return f"{self.cached_bytes} bytes are cached, the limit is {limits.mib} MiB"
        if limits.span is not None and self.span > limits.span:
            return (
                f"offsets {self.committable} and later are not consumed, {self.span} apart, the limit is {limits.span}"
            )
        return None

    def clear(self) -> None:
        """Forget every message: the queue is given up, or is read again from another offset."""
        for turn in self._turns:
            turn.settled = True
        self._turns.clear()
        self.cached_messages = self.cached_bytes = 0

    def drop(self) -> None:
        """Give the queue up: results of messages that are still being consumed do not count any more."""
        self.dropped = True

    def is_locked(self, now: float) -> bool:
        """Return whether the broker granted the lock of this queue within the last ``LOCK_LIVES_S`` seconds."""
        return self.locked_at is not None and now - self.locked_at <= LOCK_LIVES_S

    def is_pull_expired(self, now: float) -> bool:
        """Return whether pulling has stopped without a reason, so that the queue should be taken again."""
        return now - self.pulled_at > PULL_EXPIRES_S

    def __repr__(self) -> str:
        return f"<ProcessQueue {self.queue} next {self.next_offset}, {self.cached_messages} messages cached>"
