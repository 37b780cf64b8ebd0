"""Whether a sync ends so soon that handing it to another thread takes longer."""

from __future__ import annotations

from typing import Final

QUICK_S: Final = 0.001
"""A disk whose syncs take no longer than this is quick: so long, at most, connections are left alone for it anyway."""
LONGEST_S: Final = 4 * QUICK_S
"""What takes longer counts as this much: after a disk that hung for a minute some thirty quick syncs prove it quick."""
WEIGHT: Final = 1 / 16


class QuickDisk:
    """Remembers how long syncs took, the last sixteen above all. Not quick until it has proved to be."""

    __slots__ = ("_mean_s",)

    def __init__(self) -> None:
        self._mean_s = LONGEST_S

    def took(self, seconds: float) -> None:
        """A sync ended after so long."""
        self._mean_s += (min(seconds, LONGEST_S) - self._mean_s) * WEIGHT

    @property
    def is_quick(self) -> bool:
        """Whether the next sync may be waited for."""
        return self._mean_s <= QUICK_S
