"""The copies that slaves have of the log: who counts, up to where enough slaves have it, what a sender is answered.

A slave counts once it is known by its broker id and its log was compared with ours. All offsets are offsets of the
commit log; a report is the offset after the last byte that the slave has.
"""

from __future__ import annotations

from typing import Protocol

from gateway.store.put_result import PutStatus


class CountedCopies(Protocol):
    """The copies, as the port and the stage see them: ``Copies`` here, or those of a group with a controller."""

    @property
    def needed(self) -> int:
        """The number of slaves that must have a message."""

    @property
    def counts_alone(self) -> bool:
        """True if this broker's own disk may be enough now."""

    @property
    def replicated_end(self) -> int:
        """The offset below which as many slaves as needed have the log."""

    def report(self, broker_id: int, end: int) -> None:
        """Note that a slave has everything below ``end``."""

    def leave(self, broker_id: int) -> None:
        """Forget a slave whose connection is closed."""

    def is_in_sync(self, report: int, durable_end: int) -> bool:
        """Return whether a slave with this report is close enough to the end of the log for senders to wait for it."""

    def answer_without_waiting(self, durable_end: int) -> PutStatus | None:
        """Return what senders are answered at once, because too few slaves are in sync; None if they wait."""


class Copies:
    """The reports of the slaves that count.

    :param needed: how many slaves must have a message; 0 if nobody waits for slaves.
    :param max_gap_bytes: how far a slave in sync may be behind.
    """

    counts_alone = False

    def __init__(self, needed: int, max_gap_bytes: int) -> None:
        self.needed = needed
        self._max_gap_bytes = max_gap_bytes
        self._reports: dict[int, int] = {}

    def report(self, broker_id: int, end: int) -> None:
        """Note that a slave has everything below ``end``."""
        self._reports[broker_id] = end

    def leave(self, broker_id: int) -> None:
        """Forget a slave whose connection is closed."""
        self._reports.pop(broker_id, None)

    @property
    def replicated_end(self) -> int:
        """The offset below which as many slaves as needed have the log; 0 if fewer slaves count."""
        if not 0 < self.needed <= len(self._reports):
            return 0
        return sorted(self._reports.values(), reverse=True)[self.needed - 1]

    def is_in_sync(self, report: int, durable_end: int) -> bool:
        """Return whether a slave with this report is close enough to the end of the log for senders to wait for it."""
        return durable_end - report <= self._max_gap_bytes

    def in_sync(self, durable_end: int) -> int:
        """Return how many slaves are close enough to the end of the log."""
        return sum(self.is_in_sync(report, durable_end) for report in self._reports.values())

    def answer_without_waiting(self, durable_end: int) -> PutStatus | None:
        """Return what senders are answered at once, because too few slaves are in sync; None if they wait."""
        return None if self.in_sync(durable_end) >= self.needed else PutStatus.SLAVE_NOT_AVAILABLE
