"""Which queues of a topic with very many may have something for a group, so that a pop does not look at all of them.

A queue that was found at its end is passed by until a message arrives there or the group is set elsewhere; everything
that moves a group's offset says so here. What is not known counts as unread: to forget something costs time, and
nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

NARROW: Final = 64
"""Queues of a topic that are all looked at each time; one with more is wide."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""Marks of all groups and topics together; those used longest ago are forgotten."""
MAX_GROUPS_OF_TOPIC: Final = 256
"""Groups of one topic with marks: each message that arrives sets the mark of its queue for all of them."""
OWN_BYTES: Final = 512
"""Of the marks of a group and topic, beside two for each queue."""


class Unread:
    """One group's marks of one topic, a byte for each queue: 1 where it may have something.

    :ivar to_pop: for pops, which also begin queues that are new to the group; ``to_see`` for those that only look.
    :ivar changes: rises whenever a mark may have been set, or when nobody sets them any more.
    """

    __slots__ = ("changes", "to_pop", "to_see")

    def __init__(self, queues: int) -> None:
        self.to_pop = bytearray(b"\x01") * queues
        self.to_see = bytearray(b"\x01") * queues
        self.changes = 0

    def touch(self, queue_id: int) -> None:
        """A queue may have something now."""
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
        """The marks of a group and a topic that has so many queues."""
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
        """A queue has a new message."""
        groups = self._groups.get(topic)
        if groups is not None:
            for unread in groups.values():
                unread.touch(queue_id)

    def touch(self, key: str, queue_id: int) -> None:
        """A group was set elsewhere in a queue; ``key`` is ``topic@group``."""
        unread = self._of.get(key)
        if unread is not None:
            unread.touch(queue_id)

    def forget(self, key: str) -> None:
        """What is known of a group and a topic does not hold any more."""
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
        """The same for all groups."""
        for key in list(self._groups.get(topic, ())):
            self.forget(key)


def marked(marks: bytearray, start: int = 0, stop: int | None = None) -> Iterator[int]:
    """Queues that are marked, upwards; marks that change meanwhile count as they are when it is their turn."""
    end = len(marks) if stop is None else stop
    at = marks.find(1, start, end)
    while at >= 0:
        yield at
        at = marks.find(1, at + 1, end)


def marked_downwards(marks: bytearray) -> Iterator[int]:
    """The same from the last one on."""
    at = marks.rfind(1)
    while at >= 0:
        yield at
        at = marks.rfind(1, 0, at)
