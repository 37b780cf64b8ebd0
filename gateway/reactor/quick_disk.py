"""A measure of the disk: whether a sync ends so soon that handing the sync to another thread would take longer."""

from __future__ import annotations

from typing import Final

QUICK_S: Final = 0.001
"""Seconds that a sync takes at most on a quick disk.

Connections may wait for an expected call as long as this in any case (``EXPECTED_WITHIN_S``).
"""
LONGEST_S: Final = 4 * QUICK_S
"""Seconds that a longer sync counts as: even after a disk that hung for a minute, about thirty syncs prove it quick."""
WEIGHT: Final = 1 / 16


class QuickDisk:
    """Remembers how long syncs took, mainly the last sixteen. A disk is not quick until its syncs have proved it."""

    __slots__ = ("_mean_s",)

    def __init__(self) -> None:
        self._mean_s = LONGEST_S

    def took(self, seconds: float) -> None:
        """Note the seconds that a sync took."""
        self._mean_s += (min(seconds, LONGEST_S) - self._mean_s) * WEIGHT

    @property
    def is_quick(self) -> bool:
        """True if the reactor's thread may wait for the next sync."""
        return self._mean_s <= QUICK_S
