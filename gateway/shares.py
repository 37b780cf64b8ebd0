"""Shares of what there is only so much of: no holder gets all of it.

A holder is a connection, a group or a host. One holder gets at most three quarters of the total, or less where a limit
of its own says so. The last tenth is for
holders that have little, a thousandth of the total at most: whoever comes when greedy ones took their part still gets
enough to work.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class Shares(Generic[Holder]):
    """Counts what each holder has of a limited total.

    :param total: what all holders have together at most, in any unit.
    :param share: what one of them has at most; None for three quarters of the total.
    """

    def __init__(self, total: int, share: int | None = None) -> None:
        self.used = 0
        self._held: dict[Holder, int] = {}
        self.resize(total, share)

    def resize(self, total: int, share: int | None = None) -> None:
        """Another limit from now on; those that have more than it allows keep what they have."""
        self.total = total
        self._share = total - total // 4 if share is None else share
        self._open_to_all = total - total // 10
        self._little = max(1, total // 1_000)

    def held(self, holder: Holder) -> int:
        """How much a holder has."""
        return self._held.get(holder, 0)

    def has_room(self, holder: Holder, amount: int = 1) -> bool:
        """Whether ``amount`` more is within the holder's share."""
        used, held = self.used + amount, self._held.get(holder, 0) + amount
        return held <= self._share and used <= (self.total if held <= self._little else self._open_to_all)

    def take(self, holder: Holder, amount: int = 1) -> bool:
        """Give the holder more; False, and nothing changes, when that is beyond its share."""
        if not self.has_room(holder, amount):
            return False
        self.add(holder, amount)
        return True

    def add(self, holder: Holder, amount: int = 1) -> None:
        """Count what a holder has without asking: what a file brings back, what the broker itself needs."""
        self.used += amount
        self._held[holder] = self._held.get(holder, 0) + amount

    def give_back(self, holder: Holder, amount: int = 1) -> None:
        """The holder has less; one that has nothing is forgotten."""
        self.used -= amount
        left = self._held[holder] - amount
        if left:
            self._held[holder] = left
        else:
            del self._held[holder]

    def refusal(self, holder: Holder, what: str) -> str:
        """The remark for a holder that gets no more; ``what`` names it: ``offsets of group g``."""
        return (
            f"{what}: {self.held(holder)}, of all: {self.used}, the limit is {self.total}; one has {self._share} of it "
            f"at most, and the last {self.total - self._open_to_all} are for those that have up to {self._little}"
        )
