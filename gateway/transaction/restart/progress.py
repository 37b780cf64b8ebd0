"""The progress of outcomes: the offsets below which every half message is settled.

The next start reads the progress, and so does Apache RocketMQ if it takes the directory over.

The consumer offsets of CID_RMQ_SYS_TRANS get the half offset (the oldest open half message) and the op offset (the
first op record still needed). The check journal gets a mark of the commit log. All three are written only after the
log, up to the moment when they were read, is on disk. Progress must never be ahead of what survives a power failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.needs import LogAccess, TransactionNeeds
from gateway.transaction.records.half_messages import HALF_QUEUE_ID
from gateway.transaction.records.op_messages import OP_QUEUE_ID
from gateway.transaction.restart.rebuild import OFFSETS_GROUP
from gateway.transaction.settling import Settling
from gateway.transaction.tables.transaction_tables import TransactionTables

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

INTERVAL_MS = 1_000
MARK_STEP_BYTES = 64 << 20
"""The step in which the mark moves, and so the part of the log that a start may have to search for final messages."""


class OutcomeProgress:
    """Write the progress a second or two after outcomes have changed it; no timer runs while nothing changes."""

    def __init__(
        self,
        tables: TransactionTables,
        store: LogAccess,
        settling: Settling,
        journal: CheckJournal,
        needs: TransactionNeeds,
    ) -> None:
        self._tables = tables
        self._store = store
        self._settling = settling
        self._journal = journal
        self._offsets = needs.offsets
        self._reactor = needs.reactor
        self._seen: tuple[int, int, int, bool, bool] | None = None
        self._written: tuple[int, int] | None = None
        self._call: IDelayedCall | None = None
        self._running = False
        self.when_recorded: Callable[[], None] | None = None
        """The function to call once, when the op records that the start found missing are on disk."""
        settling.moved.append(self._moved)

    def start(self) -> None:
        """Start to write the progress."""
        self._running = True
        self._moved()

    def _moved(self) -> None:
        """Plan the next look, because outcomes have moved."""
        if self._call is None and self._running:
            self._call = self._reactor.callLater(INTERVAL_MS / 1_000, self._look)

    def stop(self) -> None:
        """Write the present progress, as far as the log is on disk."""
        self._running = False
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None
        self._write()  # the progress seen before, because the newest may not be on disk yet
        self._seen = self._now()
        self._write(every_step=True)
        self._journal.write(self._tables.pending.count, self._tables.pending.checked)

    def _look(self) -> None:
        self._call = None
        self._write()
        self._seen = self._now()
        self._write()
        if self._seen is not None:
            self._moved()

    def _now(self) -> tuple[int, int, int, bool, bool]:
        base = self._tables.pending.base
        op_offset = self._tables.ops.needed_from(base) if self._tables.pending.count else self._tables.ops.end
        settling = self._settling
        return base, op_offset, self._store.stored_end, settling.all_recorded, settling.has_unrecorded

    def _write(self, *, every_step: bool = False) -> None:
        """Write the progress that was seen last, if the log up to there is on disk."""
        if self._seen is None or self._store.flushed_offset < self._seen[2]:
            return
        base, op_offset, log_end, all_recorded, has_unrecorded = self._seen
        self._seen = None
        told = self.when_recorded
        if told is not None and not has_unrecorded:
            self.when_recorded = None
            told()
        if (base, op_offset) != self._written:
            self._written = base, op_offset
            self._offsets.keep(OFFSETS_GROUP, HALF_TOPIC, HALF_QUEUE_ID, base)
            self._offsets.keep(OFFSETS_GROUP, OP_HALF_TOPIC, OP_QUEUE_ID, op_offset)
        if all_recorded and (every_step or log_end - self._journal.mark >= MARK_STEP_BYTES):
            self._journal.settled_below(log_end)
            self._journal.write(self._tables.pending.count, self._tables.pending.checked)
