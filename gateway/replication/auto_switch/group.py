"""The values that a member of a controller gives to its side of replication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.replication.epoch_file import EpochFile
from gateway.settings import Address


class FoundLog(NamedTuple):
    """The log of a master as its start found it, in offsets of the commit log."""

    shown_end: int
    """The offset below which consumers see it."""
    record_end: int
    """The offset after the last record."""
    end: int
    """The end of the log: after the last record, or after the filler that follows this record."""


class SyncMembers(Protocol):
    """The sync state set of a master, and the slaves that are connected.

    The set has the broker ids of all members that the controller may elect, this master's included. All offsets are
    offsets of the commit log.
    """

    @property
    def counting(self) -> frozenset[int]:
        """The members that must have a message before its send is answered."""

    def connect(self, broker_id: int, end: int, own_end: int, now_ms: int, /) -> None:
        """Note that a slave connected, and that its log is the beginning of ours up to ``end``."""

    def report(self, broker_id: int, end: int, own_end: int, now_ms: int, /) -> None:
        """Note that a slave has everything below ``end`` on its disk."""

    def leave(self, broker_id: int, /) -> None:
        """Note that the connection of a slave is closed."""

    def confirmed(self, own_end: int, /) -> int:
        """Return the offset below which every member has the log; it never falls, and a missing member freezes it."""


@dataclass(frozen=True, slots=True)
class MasterOfGroup:
    """The master's place in its group."""

    epoch: int
    """The epoch in which the controller elected this broker."""
    epoch_file: EpochFile
    make_members: Callable[[FoundLog], SyncMembers]
    """Makes the members once the store is open."""
    min_in_sync: int
    """The number of members of the set below which no message is taken (``minInSyncReplicas``)."""


@dataclass(frozen=True, slots=True)
class SlaveOfGroup:
    """A slave's place in its group."""

    own_id: int
    epoch_file: EpochFile
    master: Callable[[], Address | None]
    """Returns the address of the master that the controller named; None if it named none."""
    cut: Callable[[int], None]
    """Asks the broker to stop, to cut its log at an offset, and to start again.

    Called again every few seconds until that is done.
    """
