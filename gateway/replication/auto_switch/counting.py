"""The copies that senders of a group wait for: those of every member of the sync state set."""

from __future__ import annotations

from collections.abc import Callable

from gateway.clock import Milliseconds
from gateway.replication.auto_switch.group import SyncMembers
from gateway.store.put_result import PutStatus


class NoMembers:
    """The members before the store is open: nothing is confirmed."""

    counting: frozenset[int] = frozenset()

    def connect(self, *_: int) -> None:
        """Implement ``SyncMembers.connect``."""

    def report(self, *_: int) -> None:
        """Implement ``SyncMembers.report``."""

    def leave(self, *_: int) -> None:
        """Implement ``SyncMembers.leave``."""

    def confirmed(self, *_: int) -> int:
        """Implement ``SyncMembers.confirmed``."""
        return 0


class GroupCopies:
    """The copies, as the port and the stage see them (``CountedCopies``).

    A member without a connection freezes the end: its senders are answered FLUSH_SLAVE_TIMEOUT until the controller
    takes it out of the set.

    :param own_end: returns the offset below which this broker has everything on disk.
    """

    counts_alone = True

    def __init__(self, min_in_sync: int, own_end: Callable[[], int], clock_ms: Milliseconds) -> None:
        self._min_in_sync = min_in_sync
        self._own_end = own_end
        self._clock_ms = clock_ms
        self._members: SyncMembers = NoMembers()
        self._connected: set[int] = set()
        self._replicated_end = 0

    def count(self, members: SyncMembers) -> None:
        """Count these members from now on."""
        self._members = members

    @property
    def needed(self) -> int:
        """The number of slaves that must have a message."""
        return len(self._members.counting) - 1

    @property
    def refusal(self) -> str | None:
        """The reason why no message is taken now; None if the set has enough members."""
        count, least = len(self._members.counting), self._min_in_sync
        if count >= least:
            return None
        return f"the sync state set has {count} members, minInSyncReplicas asks for {least}"

    @property
    def end_everywhere(self) -> int:
        """The offset below which every member has the log, however few they are: no switch cuts it away.

        Slaves show so much of it as they have: what they show, the master and they have.
        """
        return self._members.confirmed(self._own_end())

    @property
    def replicated_end(self) -> int:
        """The offset below which every member has the log; it rises only while there are as many as have to be.

        What was sent before the set became too small therefore waits for another copy.
        """
        if self.refusal is None:
            self._replicated_end = self.end_everywhere
        return self._replicated_end

    def report(self, broker_id: int, end: int) -> None:
        """Note that a slave has everything below ``end``."""
        if broker_id in self._connected:
            self._members.report(broker_id, end, self._own_end(), self._clock_ms())
        else:
            self._connected.add(broker_id)
            self._members.connect(broker_id, end, self._own_end(), self._clock_ms())

    def leave(self, broker_id: int) -> None:
        """Forget a slave whose connection is closed."""
        self._connected.discard(broker_id)
        self._members.leave(broker_id)

    def is_in_sync(self, report: int, durable_end: int) -> bool:  # noqa: ARG002 (the set decides, not the gap)
        """Return whether a slave with this report has what all members have."""
        return report >= self.end_everywhere

    def answer_without_waiting(self, durable_end: int) -> PutStatus | None:  # noqa: ARG002
        """Return None: a member that is missing leaves the set soon, and its senders wait until then."""
        return None
