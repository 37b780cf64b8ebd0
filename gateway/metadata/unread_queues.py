"""The queues of a topic with very many queues that may have messages for a group, so that a pop need not check all.

A queue that was found at its end is skipped until a message arrives or the group's offset is set. Every part that moves
a group's offset reports so here. An unknown queue counts as unread: forgetting a mark costs only time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

NARROW: Final = 64
"""The most queues of a topic that are all checked each time; a topic with more queues is wide."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""The bytes of all marks of groups and topics; the least recently used marks are forgotten."""
MAX_GROUPS_OF_TOPIC: Final = 256
"""The number of groups of one topic with marks: each new message sets the mark of its queue for all of these groups."""
OWN_BYTES: Final = 512
"""The bytes that count for the marks of a group and topic, in addition to two for each queue."""


class Unread:
    """One group's marks of one topic, a byte for each queue: 1 if the queue may have messages.

    :ivar to_pop: for pops, which also start to read queues that are new to the group.
    :ivar to_see: for requests that only check for messages.
    :ivar changes: rises whenever a mark may have been set, or when nobody sets the marks any more.
    """

    __slots__ = ("changes", "to_pop", "to_see")

    def __init__(self, queues: int) -> None:
        self.to_pop = bytearray(b"\x01") * queues
        self.to_see = bytearray(b"\x01") * queues
        self.changes = 0

    def touch(self, queue_id: int) -> None:
        """Mark a queue that may have messages now."""
        if 0 <= queue_id < len(self.to_pop):
            self.to_pop[queue_id] = self.to_see[queue_id] = 1
        self.changes += 1


class UnreadQueues:
    """The marks of all groups."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._of: OrderedDict[str, Unread] = OrderedDict()
        self._groups: dict[str, OrderedDict[str, Unread]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, topic: str, group: str, queues: int) -> Unread:
        """Return the marks of a group and a topic with this number of queues; make them if there are none."""
        key = f"{topic}@{group}"
        found = self._of.get(key)
        if found is not None:
            if len(found.to_pop) == queues:
                self._of.move_to_end(key)
                self._groups[topic].move_to_end(key)
                return found
            self.forget(key)
        groups = self._groups.setdefault(topic, OrderedDict())
        made = self._of[key] = groups[key] = Unread(queues)
        self._bytes += 2 * queues + OWN_BYTES
        if len(groups) > MAX_GROUPS_OF_TOPIC:
            self.forget(next(iter(groups)))
        while self._bytes > self._max_bytes and len(self._of) > 1:
            self.forget(next(iter(self._of)))
        return made

    def arrived(self, topic: str, queue_id: int) -> None:
        """Mark a queue that has a new message, for all groups of the topic."""
        groups = self._groups.get(topic)
        if groups is not None:
            for unread in groups.values():
                unread.touch(queue_id)

    def touch(self, key: str, queue_id: int) -> None:
        """Mark a queue in which a group's offset was set; ``key`` is ``topic@group``."""
        unread = self._of.get(key)
        if unread is not None:
            unread.touch(queue_id)

    def forget(self, key: str) -> None:
        """Forget the marks of a group and a topic, because they are not valid any more."""
        unread = self._of.pop(key, None)
        if unread is None:
            return
        unread.changes += 1
        self._bytes -= 2 * len(unread.to_pop) + OWN_BYTES
        topic = key.partition("@")[0]
        groups = self._groups[topic]
        del groups[key]
        if not groups:
            del self._groups[topic]

    def forget_topic(self, topic: str) -> None:
        """Forget the marks of a topic for all groups."""
        for key in list(self._groups.get(topic, ())):
            self.forget(key)


def marked(marks: bytearray, start: int = 0, stop: int | None = None) -> Iterator[int]:
    """Yield marked queues in rising order; a mark that changes meanwhile counts as it is at its turn."""
    end = len(marks) if stop is None else stop
    at = marks.find(1, start, end)
    while at >= 0:
        yield at
        at = marks.find(1, at + 1, end)


def marked_downwards(marks: bytearray) -> Iterator[int]:
    """Yield marked queues in falling order."""
    at = marks.rfind(1)
    while at >= 0:
        yield at
        at = marks.rfind(1, 0, at)
