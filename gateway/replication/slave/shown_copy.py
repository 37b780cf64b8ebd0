"""The part of its log that a slave without a controller shows: proven copies and, of three or more, confirmed ones.

With two copies, what this disk has of its master's log is at the master and here. With more (``inSyncReplicas``), the
master knows what enough slaves have, and a slave shows what its master shows. A former ``SYNC_MASTER`` that starts as a
slave may have an end that nobody else has: it stays hidden until this log is proven to be a copy of the master's, and
for ever if it is refused.
"""

from __future__ import annotations

from gateway.in_thread import Failed
from gateway.replication.hidden_tail import HiddenTail, HidingLog, Show
from gateway.replication.slave.confirmed import ConfirmedStage
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings.replication import ReplicationSettings
from gateway.store.durability.surroundings import BatchObserver
from gateway.telemetry.logs import EventLog

log = EventLog("replication")

PROVEN_BY_TWO = 2
"""The copies that a message has once a slave has it."""


class ShownCopy:
    """The hidden end of the log, and the stage for what is copied, if the master has to confirm it."""

    def __init__(self, settings: ReplicationSettings, around: ReplicationSurroundings) -> None:
        self._waits = settings.in_sync_replicas > PROVEN_BY_TWO
        self._around = around
        self._stage: ConfirmedStage | None = None
        self._tail: HiddenTail | None = None

    def stage(self, after: BatchObserver) -> BatchObserver:
        """Return the stage that holds records until the master shows them, or ``after``."""
        if not self._waits:
            return after
        self._stage = ConfirmedStage(after)
        return self._stage

    def begin(self, store: HidingLog, tail: HiddenTail, show: Show) -> None:
        """Hide what the store found on the disk and is not known to be replicated; blocks."""
        if self._stage is None and not tail.is_noted:
            return
        tail.begin(store, show, shows_all=False)
        if tail.bytes:
            log.info("hidden until this log is a copy of the master's", bytes=tail.bytes, log_offset=tail.shown_end)
        self._tail = tail
        if self._stage is not None:
            self._stage.begin(tail)

    def told(self, end: int) -> None:
        """Take that the master, of whose log this one is a copy, shows its log up to an offset."""
        if self._stage is not None:
            self._stage.confirm(end)
            return
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.show_to(tail.end)
            self._around.in_thread(tail.forget, _forgotten)

    def drain(self) -> None:
        """Let everything held become visible: the broker stops, and nobody reads any more."""
        if self._stage is not None:
            self._stage.let_all_pass()


def _forgotten(result: Failed | None) -> None:
    if isinstance(result, Failed):
        log.error("the next start hides a part of the log again", error=str(result.error))
