"""A group's progress in each queue of this client, in memory, and the offsets that are not stored yet.

``consume/offset_store.py`` stores the offsets: at a broker, or in a file if every member reads everything.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.client.message_queue import MessageQueue


class OffsetTable:
    """The next offset to consume in each queue."""

    __slots__ = ("_changed", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._changed: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue, None if the table does not have the queue."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Note that a queue is consumed up to an offset; an offset below the known one changes nothing."""
        if offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset
            self._changed.add(queue)

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Set an offset, forwards or backwards."""
        if offset != self._offsets.get(queue):
            self._offsets[queue] = offset
            self._changed.add(queue)

    def learn(self, queue: MessageQueue, offset: int) -> None:
        """Take an offset from the store; the offset need not be stored again."""
        self._offsets[queue] = offset
        self._changed.discard(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Remove a queue that now belongs to another member."""
        self._offsets.pop(queue, None)
        self._changed.discard(queue)

    def take_changed(self, queues: Collection[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """Return the offsets to store, of all or of some queues; from now on they count as stored."""
        taken = self._changed if queues is None else self._changed.intersection(queues)
        offsets = {queue: self._offsets[queue] for queue in sorted(taken)}
        self._changed = self._changed - taken
        return offsets

    def changed(self, queues: Collection[MessageQueue] | None = None) -> list[MessageQueue]:
        """Return the queues, of all or of these, whose offsets are not stored."""
        return sorted(self._changed if queues is None else self._changed.intersection(queues))

    def put_back(self, queue: MessageQueue) -> None:
        """Mark a queue's offset to be stored again, after storing has failed."""
        if queue in self._offsets:
            self._changed.add(queue)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets of a topic, or all offsets if the name is empty."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}
