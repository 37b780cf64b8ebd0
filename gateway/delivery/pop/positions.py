"""The positions of groups in the queues they pop from, including pops whose check points are on their way to the disk.

The committed offset moves when a check point is stored. Until the check point is stored, the next pop already continues
after the pop under way, so that a queue is never closed while the disk works. A pop that a reset or a failure overtakes
does not move the offset any more. Ordered pops are not in here: acknowledgements move their offsets. Upstream closes
the queue instead (``QueueLockManager``).
"""

from __future__ import annotations

from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.saved.write_behind import Saved

Key = tuple[str, str, int]
"""A queue of a group: topic, group, queue id."""


class _Way:
    """The way of one group through one queue while pops are under way."""

    __slots__ = ("next_offset", "under_way")

    def __init__(self) -> None:
        self.next_offset = 0
        self.under_way = 0


class Step:
    """A pop under way: it moves the group to ``next_offset`` when its check point is stored."""

    __slots__ = ("_way", "key", "next_offset")

    def __init__(self, key: Key, next_offset: int, way: _Way) -> None:
        self.key = key
        self.next_offset = next_offset
        self._way = way


class Positions:
    """The ways of all groups; an entry exists only while a pop is under way or reads the disk."""

    def __init__(self, offsets: ConsumerOffsets) -> None:
        self._offsets = offsets
        self.unread = offsets.unread
        self._ways: dict[Key, _Way] = {}
        self._reading: set[Key] = set()

    def __len__(self) -> int:
        return len(self._ways)

    def committed(self, key: Key) -> int:
        """Return where the group continues; -1 if the group is new to the queue. A pending reset is applied here."""
        topic, group, queue_id = key
        if self._offsets.resets and self._offsets.follow_reset(group, topic, queue_id) is not None:
            self.forget(key)
        way = self._ways.get(key)
        return self._offsets.query(group, topic, queue_id) if way is None else way.next_offset

    def forget(self, key: Key) -> bool:
        """Forget the pops under way in a queue that was reset; return whether there were any.

        These pops do not move the group from its new offset.
        """
        topic, group, queue_id = key
        self.unread.touch(f"{topic}@{group}", queue_id)
        return self._ways.pop(key, None) is not None

    def forget_topic(self, topic: str) -> bool:
        """Forget the pops under way in a deleted topic, so that they move no offset; return whether there were any."""
        self.unread.forget_topic(topic)
        gone = [key for key in self._ways if key[0] == topic]
        for key in gone:
            del self._ways[key]
        return bool(gone)

    def step(self, key: Key, next_offset: int) -> Step:
        """Note a pop that is on its way to the disk."""
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = _Way()
        way.next_offset = next_offset
        way.under_way += 1
        return Step(key, next_offset, way)

    def stored(self, step: Step) -> None:
        """Move the group's offset, because the pop is on disk."""
        way = step._way
        if self._ways.get(step.key) is not way:
            return  # overtaken
        topic, group, queue_id = step.key
        self._offsets.keep(group, topic, queue_id, step.next_offset)
        way.under_way -= 1
        if not way.under_way:
            del self._ways[step.key]

    def failed(self, step: Step) -> None:
        """Let the group continue from the committed offset, because the pop was not stored.

        Later pops under way do not count either.
        """
        if self._ways.get(step.key) is step._way:
            self.forget(step.key)

    def skip(self, key: Key, next_offset: int) -> None:
        """Move the group to an offset before which no message is for the group."""
        way = self._ways.get(key)
        if way is None:
            topic, group, queue_id = key
            self._offsets.commit(group, topic, queue_id, next_offset)
        else:
            way.next_offset = next_offset

    def save(self, saved: Saved) -> None:
        """Write the committed offsets; call ``saved`` when they are on disk, or with the error."""
        self._offsets.persist(saved)

    # -- reads of the disk ----------------------------------------------------------------------------------

    def begin_read(self, key: Key) -> None:
        """Note that a pop reads the disk: other pops skip the queue."""
        self._reading.add(key)

    def end_read(self, key: Key) -> None:
        """Note that the pop has read the disk."""
        self._reading.discard(key)

    def is_read(self, key: Key) -> bool:
        """Return whether a pop reads the disk for this queue."""
        return key in self._reading
