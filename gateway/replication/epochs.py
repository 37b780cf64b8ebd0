"""The epochs of a log as one value: which master wrote which part, and up to where two logs have the same masters.

An epoch ends where the next one starts; the last one ends where the log does. Equal epochs do not prove equal bytes:
the records are compared as well (``prefix``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.errors import GatewayError
from wire.disk.epoch_file import EpochEntry


class EpochTooOld(GatewayError):  # noqa: N818 (a fact about a switch)
    """The log has an epoch that is not below the one in which this broker is to be the master."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of one log, in ascending order of number and of start."""

    entries: tuple[EpochEntry, ...] = ()

    @property
    def last(self) -> EpochEntry | None:
        """The newest epoch; None if the log has none."""
        return self.entries[-1] if self.entries else None

    def at(self, offset: int) -> EpochEntry | None:
        """Return the epoch of the byte at an offset; None if the log has none there."""
        return next((entry for entry in reversed(self.entries) if entry.start <= offset), None)

    def end_at(self, offset: int) -> int | None:
        """Return where the epoch of the byte at an offset ends; None for the last one."""
        return next((entry.start for entry in self.entries if entry.start > offset), None)

    def promoted(self, epoch: int, end: int) -> Epochs:
        """Return the epochs of a log whose broker becomes the master of an epoch, and whose log ends at ``end``.

        An epoch in which nothing was written is dropped, so that the new one always has an entry.

        :raises EpochTooOld: the log has this epoch, or a newer one, before ``end``.
        """
        kept = self.without_from(end)
        if kept.last is not None and kept.last.epoch >= epoch:
            raise EpochTooOld(
                f"the log has epoch {kept.last.epoch} from {kept.last.start} on, epoch {epoch} cannot follow it: "
                "if the controllers lost their data, start the member first whose epochFileCheckpoint ends with the "
                "highest epoch (of several the one with the longest log), after these files were moved away at every "
                "member: docs/controller.md, *What each failure leaves*"
            )
        return Epochs((*kept.entries, EpochEntry(epoch, end)))

    def followed(self, told: EpochEntry) -> Epochs:
        """Return the epochs of a log that gets bytes of an epoch from its master; the master's word counts."""
        if self.last == told:
            return self
        kept = (entry for entry in self.entries if entry.start < told.start and entry.epoch < told.epoch)
        return Epochs((*kept, told))

    def without_from(self, offset: int) -> Epochs:
        """Return the epochs without those that start at an offset or later."""
        return Epochs(tuple(entry for entry in self.entries if entry.start < offset))

    def without_before(self, offset: int) -> Epochs:
        """Return the epochs of a log that begins at an offset: without those that end at or before it."""
        ends = (*(entry.start for entry in self.entries[1:]), None)
        pairs = zip(self.entries, ends, strict=False)
        return Epochs(tuple(entry for entry, end in pairs if end is None or end > offset))

    def common_end(self, end: int, theirs: Sequence[EpochEntry], their_end: int) -> int | None:
        """Return up to where this log and another one, by their epochs alone, may be equal; None without a common one.

        :param end: where this log ends; ``their_end`` is where the other one ends.
        """
        others = Epochs(tuple(theirs))
        for entry in reversed(self.entries):
            if entry in others.entries:
                return min(self._end_of(entry, end), others._end_of(entry, their_end))
        return None

    def _end_of(self, entry: EpochEntry, log_end: int) -> int:
        end = self.end_at(entry.start)
        return log_end if end is None else min(end, log_end)
