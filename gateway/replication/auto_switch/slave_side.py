"""The slave's side of a group: what differs from ``brokerRole`` alone (``GroupFollow`` of ``slave.joining``)."""

from __future__ import annotations

from gateway.replication.auto_switch.group import SlaveOfGroup
from gateway.replication.auto_switch.joining import GroupJoining
from gateway.replication.hidden_tail import HiddenTail
from gateway.replication.slave.beginning import BeginningLog
from gateway.replication.slave.confirmed import ConfirmedStage
from gateway.replication.slave.joining import Joining
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address
from gateway.store.durability.surroundings import BatchObserver


class SlaveSide:
    """The master, the way to join it, and what is shown."""

    def __init__(self, group: SlaveOfGroup) -> None:
        self._group = group
        self._stage: ConfirmedStage | None = None

    @property
    def master(self) -> Address | None:
        """The address of the master that the controller named."""
        return self._group.master()

    def stage(self, after: BatchObserver) -> BatchObserver:
        """Return the stage that holds records until the master says that all members have them."""
        self._stage = ConfirmedStage(after)
        return self._stage

    def begin(self, tail: HiddenTail) -> None:
        """Take what the start hides, which is shown when all members have it."""
        assert self._stage is not None, "the store was made with the stage"
        self._stage.begin(tail)

    def joining(self, store: BeginningLog, around: ReplicationSurroundings) -> Joining:
        """Return the way to join the master, for a store that has the stage."""
        assert self._stage is not None, "the store was made with the stage"
        return GroupJoining(store, around, self._group, self._stage.confirm)

    def drain(self) -> None:
        """Let everything held become visible."""
        if self._stage is not None:
            self._stage.let_all_pass()
