"""The plan for moving a group back or forth: the new offset of each queue, known before anything is changed.

Pure. ``admin_offsets`` finds the offsets; this module computes their meaning for the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.client.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The change of the offset of one queue.

    :param queue: the queue.
    :param current: the offset that the group would read next; None without an offset.
    :param new: the offset that the group will read next.
    """

    queue: MessageQueue
    current: int | None
    new: int

    @property
    def repeated(self) -> int:
        """The number of messages that will be consumed once more."""
        return max(0, self.current - self.new) if self.current is not None else 0

    @property
    def skipped(self) -> int:
        """The number of messages that will not be consumed at all."""
        return max(0, self.new - self.current) if self.current is not None else 0


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The changes of a reset, planned or made.

    :param group: the group whose offsets change.
    :param topic: the topic of these offsets.
    :param changes: one change for each queue, in the order of the queues.
    :param online: the number of connected clients of the group, which their brokers have to notify.
    """

    group: str
    topic: str
    changes: Sequence[OffsetChange]
    online: int = 0

    @property
    def repeated(self) -> int:
        """The number of messages in all queues that will be consumed once more."""
        return sum(change.repeated for change in self.changes)

    @property
    def skipped(self) -> int:
        """The number of messages in all queues that will not be consumed."""
        return sum(change.skipped for change in self.changes)

    def __str__(self) -> str:
        lines = [
            f"{self.group} in {self.topic}: {self.repeated} messages again, {self.skipped} skipped"
            + (f"; {self.online} clients are connected" if self.online else "")
        ]
        for change in self.changes:
            current = "none" if change.current is None else change.current
            lines.append(f"  {change.queue.broker_name} queue {change.queue.queue_id}: {current} -> {change.new}")
        return "\n".join(lines)
