"""Setting a group back or forth: which offset each queue gets, known before anything is changed.

Pure. The offsets are found by ``aio.admin_offsets``; here is what they mean for the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.client.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """One queue.

    :param queue: which.
    :param current: what the group would read next; None when it has no offset yet.
    :param new: what it will read next.
    """

    queue: MessageQueue
    current: int | None
    new: int

    @property
    def repeated(self) -> int:
        """Messages that will be consumed once more."""
        return max(0, self.current - self.new) if self.current is not None else 0

    @property
    def skipped(self) -> int:
        """Messages that will not be consumed at all."""
        return max(0, self.new - self.current) if self.current is not None else 0


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """What a reset changes, or has changed.

    :param group: whose offsets.
    :param topic: in which topic.
    :param changes: a change for each queue, in their order.
    :param online: clients of the group that are connected: their brokers have to tell them.
    """

    group: str
    topic: str
    changes: Sequence[OffsetChange]
    online: int = 0

    @property
    def repeated(self) -> int:
        """Messages that will be consumed once more, of all queues."""
        return sum(change.repeated for change in self.changes)

    @property
    def skipped(self) -> int:
        """Messages that will not be consumed, of all queues."""
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
