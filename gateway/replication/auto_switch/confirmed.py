"""The stage of a slave: copied records are visible once every member that senders wait for has them.

The master says how far that is. Records that are not visible may be cut away in a switch, and nobody has read them.
"""

from __future__ import annotations

import sys
from collections import deque

from gateway.store.durability.surroundings import BatchObserver
from gateway.store.log.log_batch import LogBatch


class ConfirmedStage:
    """The observer between the disk and ``Publication``, for a slave of a group."""

    def __init__(self, after: BatchObserver) -> None:
        self._pass_on = after.stored
        self.failed = after.failed
        self.hasty = after.hasty
        self.overdue = after.overdue
        self._held: deque[LogBatch] = deque()
        self._confirmed = 0

    def stored(self, batch: LogBatch) -> None:
        """Hold a batch that is on disk; who copied it is told at once, because the master waits for the report."""
        self._held.append(batch)
        waiters, batch.waiters = batch.waiters, []
        self.confirm(self._confirmed)
        for callback, told, _ in waiters:
            callback(told)

    def confirm(self, end: int) -> None:
        """Show what lies below an offset; an offset that falls takes nothing away."""
        self._confirmed = max(self._confirmed, end)
        while self._held and self._held[0].end <= self._confirmed:
            self._pass_on(self._held.popleft())

    def let_all_pass(self) -> None:
        """Show everything that is on disk, or comes there: the broker stops, and nobody reads any more."""
        self.confirm(sys.maxsize)
