"""A fair waiting line for work: a holder with much work waits mainly for its own work.

Hosts share equally, and so do the holders of one host; most holders are connections. Works leave the line in the order
in which they would end if all holders were served at the same time. So a short work does not wait for the long works
of other holders, and a single work does not wait for thousands of works of one holder. A long work is overtaken only
for a while. The works of one holder keep their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

W = TypeVar("W")


class _Member:
    """A host or a holder that takes part in the sharing.

    ``began`` is the place of its next work in the common time of hosts or of holders.
    """

    __slots__ = ("began", "number")

    def __init__(self) -> None:
        self.began = 0.0
        self.number = 0


M = TypeVar("M", bound=_Member)


class _Sharing(Generic[M]):
    """The members that are served at the same time, in a model with a time of its own.

    The more members there are, the more slowly this time passes.
    """

    def __init__(self) -> None:
        self.members: dict[Hashable, M] = {}
        self._now = 0.0
        self._number = 0
        self._heap: list[tuple[float, int, M]] = []

    def join(self, key: Hashable, member: M) -> M:
        """Let a member take part from now on."""
        member.began = self._now
        self.members[key] = member
        return member

    def place(self, member: M, cost: float) -> None:
        """Set the cost of a member's next work; an earlier cost is no longer valid."""
        self._number += 1
        member.number = self._number
        heappush(self._heap, (member.began + cost, self._number, member))

    def first(self) -> M:
        """Return the member whose next work ends first."""
        while (top := self._heap[0])[2].number != top[1]:
            heappop(self._heap)
        return top[2]

    def serve(self, member: M, cost: float) -> None:
        """Advance the time by the cost of a member's work."""
        self._now += cost / len(self.members)
        member.began += cost

    def leave(self, key: Hashable) -> None:
        """Remove a member that has no more work; the time restarts at 0 when no member is left."""
        self.members.pop(key).number = 0
        if not self.members:
            self._now = 0.0
            self._heap.clear()


class _Holder(_Member, Generic[W]):
    """A holder with its works and their costs."""

    __slots__ = ("key", "works")

    def __init__(self, key: Hashable) -> None:
        super().__init__()
        self.key = key
        self.works: deque[tuple[W, float]] = deque()

    @property
    def cost(self) -> float:
        """The cost of the holder's next work."""
        return self.works[0][1]


class _Host(_Member, Generic[W]):
    """A host with its holders."""

    __slots__ = ("holders", "key")

    def __init__(self, key: Hashable) -> None:
        super().__init__()
        self.key = key
        self.holders: _Sharing[_Holder[W]] = _Sharing()


class FairLine(Generic[W]):
    """The waiting works of all hosts and holders."""

    def __init__(self) -> None:
        self._hosts: _Sharing[_Host[W]] = _Sharing()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def waiting(self, host: Hashable, holder: Hashable) -> int:
        """Return how many works of a holder wait."""
        found = self._hosts.members.get(host)
        of_holder = None if found is None else found.holders.members.get(holder)
        return 0 if of_holder is None else len(of_holder.works)

    def put(self, host: Hashable, holder: Hashable, work: W, cost: float = 1.0) -> None:
        """Add a work to the line.

        :param cost: the cost of the work in relation to other works, more than 0; a guess is enough.
        """
        of_host = self._hosts.members.get(host) or self._hosts.join(host, _Host(host))
        holders = of_host.holders
        of_holder = holders.members.get(holder) or holders.join(holder, _Holder(holder))
        of_holder.works.append((work, cost))
        self._count += 1
        if len(of_holder.works) == 1:
            holders.place(of_holder, cost)
            self._hosts.place(of_host, holders.first().cost)

    def take(self) -> W:
        """Remove and return the work whose turn it is; call only if a work waits."""
        of_host = self._hosts.first()
        of_holder = of_host.holders.first()
        work, cost = of_holder.works.popleft()
        self._count -= 1
        self._hosts.serve(of_host, cost)
        of_host.holders.serve(of_holder, cost)
        self._tidy(of_host, of_holder)
        return work

    def drop(self, host: Hashable, holder: Hashable) -> list[W]:
        """Remove and return all works of a holder, without a turn."""
        of_host = self._hosts.members.get(host)
        of_holder = None if of_host is None else of_host.holders.members.get(holder)
        if of_host is None or of_holder is None:
            return []
        dropped = [work for work, _ in of_holder.works]
        self._count -= len(dropped)
        of_holder.works.clear()
        self._tidy(of_host, of_holder)
        return dropped

    def _tidy(self, of_host: _Host[W], of_holder: _Holder[W]) -> None:
        """Give a host and a holder their next places, or let them leave."""
        holders = of_host.holders
        if of_holder.works:
            holders.place(of_holder, of_holder.cost)
        else:
            holders.leave(of_holder.key)
        if holders.members:
            self._hosts.place(of_host, holders.first().cost)
        else:
            self._hosts.leave(of_host.key)
