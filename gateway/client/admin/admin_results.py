"""What the admin client answers, where the body of the protocol is not good enough for people.

Queues are ``MessageQueue`` tuples, times milliseconds since the epoch. Configurations, connections and clusters are
those of ``wire.bodies``, as the servers write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.client.errors import RocketMQError
from gateway.client.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What a queue holds.

    :param min_offset: of the first message that is still stored.
    :param max_offset: what the next message stored will get.
    :param last_stored_at_ms: when its last message was stored; 0 without one.
    """

    min_offset: int
    max_offset: int
    last_stored_at_ms: int

    @property
    def messages(self) -> int:
        """How many there are."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group is in a queue.

    :param max_offset: what the next message stored will get.
    :param offset: what the group reads next.
    :param consumed_at_ms: when the message before that was *stored*; 0 when unknown.
    """

    max_offset: int
    offset: int
    consumed_at_ms: int

    @property
    def lag(self) -> int:
        """Messages the group has not consumed yet."""
        return max(0, self.max_offset - self.offset)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group is.

    :param group: its name.
    :param queues: how far it is in each queue, ordered.
    :param tps: messages it consumes in a second, as the brokers count.
    """

    group: str
    queues: Mapping[MessageQueue, QueueProgress]
    tps: float = 0.0

    @property
    def lag(self) -> int:
        """Messages of all its queues it has not consumed yet."""
        return sum(queue.lag for queue in self.queues.values())

    def lag_of(self, topic: str) -> int:
        """The lag within one topic."""
        return sum(progress.lag for queue, progress in self.queues.items() if queue.topic == topic)


@dataclass(frozen=True, slots=True)
class ConsumeTimeSpan:
    """Between which times the messages of a queue were stored, and up to which a group has consumed them.

    Times are milliseconds since the epoch; 0: there is none.

    :param queue: which.
    :param min_stored_at_ms: of the first message of the queue.
    :param max_stored_at_ms: of the last one.
    :param consumed_at_ms: of the message that the group consumed last.
    :param delay_ms: how long the group is behind.
    """

    queue: MessageQueue
    min_stored_at_ms: int
    max_stored_at_ms: int
    consumed_at_ms: int
    delay_ms: int


class MessageNotFound(RocketMQError):
    """No broker has the message asked for.

    :param what: how it was asked for.
    :param hint: what may be the reason.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"no message {self.what}: {self.hint}"


class NothingConsumed(RocketMQError):
    """A group has no offsets: no such group, or it never committed one.

    :param group: its name.
    :param topic: where it was asked for, None for all topics.
    """

    def __init__(self, group: str, topic: str | None) -> None:
        super().__init__(group, topic)
        self.group = group
        self.topic = topic

    def __str__(self) -> str:
        where = f" in topic {self.topic!r}" if self.topic else ""
        return (
            f"group {self.group!r} has no offsets{where}: the name is misspelt, it has not consumed anything yet, or "
            f"it consumes in broadcasting mode, whose offsets are kept by the clients"
        )
