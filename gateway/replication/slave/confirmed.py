"""The stage of a slave: copied records are visible once as many members as senders wait for have them.

The master says how far that is. Records that are not visible may be cut away in a switch, and nobody has read them.
"""

from __future__ import annotations

from collections import deque

from gateway.replication.hidden_tail import HiddenTail
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
        self._passes = False
        self._tail: HiddenTail | None = None

    def begin(self, tail: HiddenTail) -> None:
        """Take what a start hides, which is shown when it is confirmed."""
        self._tail = tail
        tail.when_shown(self._pass)

    def stored(self, batch: LogBatch) -> None:
        """Hold a batch that is on disk; who copied it is told at once, because the master waits for the report."""
        self._held.append(batch)
        waiters, batch.waiters = batch.waiters, []
        self._pass()
        for callback, told, _ in waiters:
            callback(told)

    def confirm(self, end: int) -> None:
        """Show what lies below an offset; an offset that falls takes nothing away."""
        self._confirmed = max(self._confirmed, end)
        if self._tail is not None:
            self._tail.note(self._confirmed)
            self._tail.show_to(self._confirmed)
        self._pass()

    def _pass(self) -> None:
        end = self._confirmed
        if self._tail is not None and self._tail.bytes:
            end = self._tail.shown_end  # the rest is shown first
        while self._held and (self._passes or self._held[0].end <= end):
            self._pass_on(self._held.popleft())

    def let_all_pass(self) -> None:
        """Hold nothing that is on disk, or comes there: the broker stops, and nobody reads any more."""
        self._passes = True
        self._pass()
