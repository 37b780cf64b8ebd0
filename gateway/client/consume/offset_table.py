"""How far a group has consumed each queue of this client, in memory, and which of it nobody was told yet.

Storing is the business of ``consume/offset_store.py``: at a broker, or in a file when every member reads everything.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.client.message_queue import MessageQueue


class OffsetTable:
    """The next offset to consume of each queue."""

    __slots__ = ("_changed", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._changed: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        """The offset of a queue; None when it is not known here."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """A queue is consumed up to an offset; a smaller one than known changes nothing."""
        if offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset
            self._changed.add(queue)

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Set an offset, forwards or backwards."""
        if offset != self._offsets.get(queue):
            self._offsets[queue] = offset
            self._changed.add(queue)

    def learn(self, queue: MessageQueue, offset: int) -> None:
        """What the store says: nobody has to be told."""
        self._offsets[queue] = offset
        self._changed.discard(queue)

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's now."""
        self._offsets.pop(queue, None)
        self._changed.discard(queue)

    def take_changed(self, queues: Collection[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """The offsets to be stored, all or of some queues; they count as stored from now on."""
        taken = self._changed if queues is None else self._changed.intersection(queues)
        offsets = {queue: self._offsets[queue] for queue in sorted(taken)}
        self._changed = self._changed - taken
        return offsets

    def changed(self, queues: Collection[MessageQueue] | None = None) -> list[MessageQueue]:
        """Which queues, of all or some, have offsets that are not stored."""
        return sorted(self._changed if queues is None else self._changed.intersection(queues))

    def put_back(self, queue: MessageQueue) -> None:
        """Storing failed: to be tried again."""
        if queue in self._offsets:
            self._changed.add(queue)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets of a topic; all for an empty name."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}
