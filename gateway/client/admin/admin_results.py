"""The results of the admin client, where the body of the protocol is not clear enough for people.

Queues are ``MessageQueue`` tuples, times are milliseconds since the epoch. Configurations, connections and clusters
are the classes of ``wire.bodies``, as the servers write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.client.errors import RocketMQError

if TYPE_CHECKING:
    from gateway.client.message_queue import MessageQueue

DEFAULT_QUEUES: Final = 8
"""The number of queues of a new topic, as in mqadmin's updateTopic."""
MAX_FOUND: Final = 64
"""The most messages that a broker looks for (upstream ``maxMsgsNumBatch``)."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The contents of a queue.

    :param min_offset: the offset of the first message that is still stored.
    :param max_offset: the offset that the next stored message will get.
    :param last_stored_at_ms: the time at which the last message was stored; 0 without a message.
    """

    min_offset: int
    max_offset: int
    last_stored_at_ms: int

    @property
    def messages(self) -> int:
        """The number of messages in the queue."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of a group in a queue.

    :param max_offset: the offset that the next stored message will get.
    :param offset: the offset that the group reads next.
    :param consumed_at_ms: the time at which the message before ``offset`` was *stored*; 0 if unknown.
    """

    max_offset: int
    offset: int
    consumed_at_ms: int

    @property
    def lag(self) -> int:
        """The number of messages that the group has not consumed yet."""
        return max(0, self.max_offset - self.offset)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The progress of a group.

    :param group: the name of the group.
    :param queues: the progress in each queue, in the order of the queues.
    :param tps: how many messages the group consumes in a second, as the brokers count.
    """

    group: str
    queues: Mapping[MessageQueue, QueueProgress]
    tps: float = 0.0

    @property
    def lag(self) -> int:
        """The number of messages in all queues that the group has not consumed yet."""
        return sum(queue.lag for queue in self.queues.values())

    def lag_of(self, topic: str) -> int:
        """Return the number of messages in one topic that the group has not consumed yet."""
        return sum(progress.lag for queue, progress in self.queues.items() if queue.topic == topic)


@dataclass(frozen=True, slots=True)
class ConsumeTimeSpan:
    """The storage times of the messages in a queue, and the time up to which a group has consumed them.

    Times are milliseconds since the epoch; 0 means that there is no time.

    :param queue: the queue.
    :param min_stored_at_ms: the storage time of the first message in the queue.
    :param max_stored_at_ms: the storage time of the last message in the queue.
    :param consumed_at_ms: the storage time of the message that the group consumed last.
    :param delay_ms: how many milliseconds the group is late.
    """

    queue: MessageQueue
    min_stored_at_ms: int
    max_stored_at_ms: int
    consumed_at_ms: int
    delay_ms: int


class MessageNotFound(RocketMQError):
    """No broker has the requested message.

    :param what: the description of the message in the request.
    :param hint: a possible reason.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"no message {self.what}: {self.hint}"


class NothingConsumed(RocketMQError):
    """A group has no offsets: the group does not exist, or it never committed an offset.

    :param group: the name of the group.
    :param topic: the topic in the request, None for all topics.
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
