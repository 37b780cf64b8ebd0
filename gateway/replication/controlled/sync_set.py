"""The sync state set of a master: the members that must have a message before its send is answered. Pure.

The controller keeps the set, and elects only its members. The master asks the controller to change it. As long as the
answer is not known, the members of both sets count: the controller may have taken either. A set in doubt, because an
answer was lost, counts until the controller names a set with a later epoch, or names any set so long after the
question that the question can no longer be carried out; ``asked_file`` keeps the doubt over a restart. So nothing that
was answered is missing at a member that may be elected. All offsets are offsets of the commit log; times are in
milliseconds and never run backwards.
"""

from __future__ import annotations

from dataclasses import dataclass

DOUBT_MS = 10_000
"""The time after which a controller no longer carries out a question whose answer was lost."""


@dataclass(slots=True)
class FollowerState:
    """A connected slave."""

    end: int
    """The offset below which it has everything."""
    caught_up_at_ms: int
    """The last known time at which it had everything that the master had at that time."""
    mark: tuple[int, int]
    """The master's end at a time, and that time."""


class InSyncMembers:
    """The sync state set of one epoch, the connected slaves, and the offset below which every member has the log.

    :param max_behind_ms: how long a member may not have caught up before it has to leave.
    """

    def __init__(self, own_id: int, *, max_behind_ms: int) -> None:
        self._own_id = own_id
        self._max_behind_ms = max_behind_ms
        self._confirmed = self._needed = self._found_end = 0
        self._slaves: dict[int, FollowerState] = {}
        self._asked_at_ms: int | None = None
        self._doubted_at_ms = 0
        self.told: frozenset[int] = frozenset({own_id})
        """The set that the controller named last."""
        self.set_epoch = 0
        """The number of changes of ``told``."""
        self.doubted: frozenset[int] = frozenset()
        """The members of sets that the controller may have taken."""

    @property
    def counting(self) -> frozenset[int]:
        """The members that must have a message before its send is answered."""
        return self.told | self.doubted

    def begin(self, shown_end: int, record_end: int, end: int) -> None:
        """Note what the log of the master has when it starts, also when it starts again in the same epoch.

        What was in doubt then stays in doubt.

        :param shown_end: the offset below which consumers see the log, because every member has it.
        :param record_end: the offset after the last record. Any record may be acknowledged, so a slave that lacks one
            may not join.
        :param end: the end of the log: a filler may follow the last record, and slaves store it with the next record.
        """
        self._slaves.clear()
        self._confirmed = max(self._confirmed, shown_end)
        self._needed, self._found_end = record_end, end

    def _records_end(self, own_end: int) -> int:
        return self._needed if own_end == self._found_end else own_end

    # -- what the controller says -------------------------------------------------------------------------------

    def tell(self, members: frozenset[int], set_epoch: int, now_ms: int) -> None:
        """Take a set that the controller named; one with an earlier epoch was overtaken by another answer."""
        if set_epoch < self.set_epoch:
            return
        is_later = set_epoch > self.set_epoch
        self.told, self.set_epoch = members, set_epoch
        if self._asked_at_ms is None and (is_later or now_ms - self._doubted_at_ms > DOUBT_MS):
            self.doubted = frozenset()

    def ask(self, members: frozenset[int], now_ms: int) -> None:
        """Note that the controller is asked to take a set."""
        self.doubt(members, now_ms)
        self._asked_at_ms = now_ms

    def doubt(self, members: frozenset[int], now_ms: int) -> None:
        """Note a set that the controller may take: it is asked now, or was before this process started."""
        self.doubted |= members
        self._doubted_at_ms = now_ms

    def answer(self, members: frozenset[int], set_epoch: int, now_ms: int) -> None:
        """Note that the controller took the set that it was asked to take."""
        self._asked_at_ms = None
        self.tell(members, set_epoch, now_ms)

    def lose(self) -> None:
        """Note that the controller refused, or that its answer is lost: the set stays in doubt."""
        self._asked_at_ms = None

    # -- what the slaves say ------------------------------------------------------------------------------------

    def connect(self, broker_id: int, end: int, own_end: int, now_ms: int) -> None:
        """Note that a slave connected, and that its log is the beginning of ours up to ``end``."""
        own_end = self._records_end(own_end)
        caught_up_at_ms = now_ms if end >= own_end else now_ms - 1
        self._slaves[broker_id] = FollowerState(end, caught_up_at_ms, (own_end, now_ms))

    def report(self, broker_id: int, end: int, own_end: int, now_ms: int) -> None:
        """Note that a slave has everything below ``end`` on its disk."""
        slave = self._slaves.get(broker_id)
        if slave is None:
            return
        own_end = self._records_end(own_end)
        slave.end = end
        if end >= slave.mark[0]:
            slave.caught_up_at_ms = slave.mark[1]
            slave.mark = own_end, now_ms
        if end >= own_end:
            slave.caught_up_at_ms = now_ms

    def leave(self, broker_id: int) -> None:
        """Note that the connection of a slave is closed; it stays in the set until the controller says otherwise."""
        self._slaves.pop(broker_id, None)

    # -- what follows -------------------------------------------------------------------------------------------

    def confirmed(self, own_end: int) -> int:
        """Return the offset below which every member has the log; it never falls."""
        end = self._records_end(own_end)
        for broker_id in self.counting - {self._own_id}:
            slave = self._slaves.get(broker_id)
            if slave is None:
                return self._confirmed
            end = min(end, slave.end)
        self._confirmed = max(self._confirmed, end)
        return self._confirmed

    def wanted(self, own_end: int, now_ms: int) -> frozenset[int] | None:
        """Return the set that the controller should be asked to take; None if none, or if an answer is awaited."""
        if self._asked_at_ms is not None:
            return None
        own_end = self._records_end(own_end)
        needed = max(self.confirmed(own_end), self._needed)
        members = {self._own_id}
        for broker_id, slave in self._slaves.items():
            if slave.end >= own_end:
                slave.caught_up_at_ms = now_ms
            if broker_id in self.told:
                is_in = now_ms - slave.caught_up_at_ms <= self._max_behind_ms
            else:
                is_in = slave.end >= needed
            if is_in:
                members.add(broker_id)
        return None if members == self.told else frozenset(members)

    def missing(self) -> frozenset[int]:
        """Return the members that are not connected: without them no send is answered."""
        return self.counting - {self._own_id} - self._slaves.keys()
