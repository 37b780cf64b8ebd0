"""The master of a group with a controller, as its role sees it; ``auto_switch.master_side`` is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gateway.replication.master.copies import CountedCopies
from gateway.replication.master.talk import SlaveTalk


class LedLog(Protocol):
    """The log of a master; ``MessageStore`` is one."""

    @property
    def durable_end(self) -> int:
        """The offset below which everything is on disk."""

    @property
    def max_commit_log_offset(self) -> int:
        """The offset after the last record."""

    @property
    def min_commit_log_offset(self) -> int:
        """The offset of the first byte that the log still has."""

    @property
    def hidden_from(self) -> int | None:
        """The offset from which on the log is hidden from consumers; None if nothing is."""

    def last_record_end(self) -> int:
        """Return the offset after the last record; a filler may follow. Blocks."""


class GroupLead(Protocol):
    """The part of a master that differs from ``brokerRole`` alone."""

    @property
    def copies(self) -> CountedCopies:
        """The copies that senders wait for."""

    @property
    def refusal(self) -> str | None:
        """The reason why too few members count for messages to be taken; None if enough do."""

    def lead(self, log: LedLog, file_bytes: int) -> Callable[[], SlaveTalk]:
        """Begin the epoch of this master, and return what makes the words for each connection; blocks.

        :param file_bytes: the size of a file of the log.
        """
