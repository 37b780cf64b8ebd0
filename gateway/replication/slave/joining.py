"""The way in which a slave finds out that its log may go on as a copy of its master's.

Classic slaves compare both logs before they connect. Slaves of a group with a controller connect, hear the master's
epochs, and compare then (``auto_switch.joining``).
"""

from __future__ import annotations

from typing import Protocol

from gateway.replication.hidden_tail import HiddenTail
from gateway.replication.slave.beginning import BeginningLog, MasterAddresses, begin
from gateway.replication.slave.talk import ClassicMasterTalk, MasterTalk
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address
from gateway.store.durability.surroundings import BatchObserver
from wire.replication.auto_switch import LogPart, MasterAnswer


class Joining(Protocol):
    """The steps of one attempt, and what a connection tells beside the bytes of the log."""

    async def prepare(self, master: MasterAddresses) -> None:
        """Return when the slave may connect.

        :raises CannotFollow: it may not; the text says why.
        :raises CallFailed: the master does not answer.
        """

    def talk(self) -> MasterTalk:
        """Return what knows the words of the protocol, for a new connection."""

    async def compare(self, master: MasterAddresses, answer: MasterAnswer) -> None:
        """Return when the log may grow by what the master sends; raises as ``prepare``."""

    async def settle(self, part: LogPart) -> None:
        """Return when what a part says beside its bytes is kept.

        :raises OSError: it cannot be kept.
        """

    def is_settled(self, part: LogPart) -> bool:
        """Take what a part says beside its bytes; return False if ``settle`` has to be awaited first."""


class GroupFollow(Protocol):
    """The slave of a group with a controller: what differs from ``brokerRole`` alone."""

    @property
    def master(self) -> Address | None:
        """The address of the master that the controller named; None if it named none."""

    def stage(self, after: BatchObserver) -> BatchObserver:
        """Return the stage that holds records until the master says that all members have them."""

    def begin(self, tail: HiddenTail) -> None:
        """Take what the start hides, which is shown when all members have it."""

    def joining(self, store: BeginningLog, around: ReplicationSurroundings) -> Joining:
        """Return the way to join the master, for a store that has the stage."""

    def drain(self) -> None:
        """Let everything held become visible."""


class ClassicJoining:
    """The way of ``brokerRole=SLAVE``."""

    talk = staticmethod(ClassicMasterTalk)

    def __init__(self, store: BeginningLog, around: ReplicationSurroundings) -> None:
        self._store = store
        self._around = around

    async def prepare(self, master: MasterAddresses) -> None:
        """Implement ``Joining.prepare``."""
        await begin(self._store, master, self._around)

    async def compare(self, master: MasterAddresses, answer: MasterAnswer) -> None:
        """Implement ``Joining.compare``."""

    async def settle(self, part: LogPart) -> None:
        """Implement ``Joining.settle``."""

    def is_settled(self, part: LogPart) -> bool:  # noqa: ARG002 (there are no such parts)
        """Implement ``Joining.is_settled``."""
        return True
