"""The plan of a run: which fault comes to which broker of the pair, and for how long, from the seed alone. No I/O."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """The fault of a round."""

    KILL = "kill"
    """`kill -9` of one of the two; it starts again."""
    KILL_BOTH = "kill-both"
    PAUSE = "pause"
    """SIGSTOP, later SIGCONT."""
    APART = "apart"
    """The two do not hear each other; clients and name server hear both."""
    ONE_WAY = "one-way"
    """One of the two does not hear the other, or nobody; or is not heard."""
    ISOLATED = "isolated"
    """The cable of one of the two is out."""
    DISK_FULL = "disk-full"
    DISK_SLOW = "disk-slow"
    NAMES = "name-server"
    """`kill -9` of the name server; it starts again."""
    LOST_MASTER = "lost-master"
    """`kill -9` of the master; the slave is started as the master, and what was the master returns as its slave."""


_WEIGHTS = {
    Trouble.KILL: 6,
    Trouble.KILL_BOTH: 1,
    Trouble.PAUSE: 3,
    Trouble.APART: 3,
    Trouble.ONE_WAY: 4,
    Trouble.ISOLATED: 2,
    Trouble.DISK_FULL: 2,
    Trouble.DISK_SLOW: 2,
    Trouble.NAMES: 1,
    Trouble.LOST_MASTER: 3,
}
_LONGEST_S = 6.0
_BEFORE_S = (0.5, 2.0)
"""Time from a healed pair, whose slave has the committed offsets, to the next fault."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the fault, whom it meets, when, and its random details."""

    trouble: Trouble
    is_master: bool
    """Whether it meets the master."""
    before_s: float
    lasts_s: float
    detail: float
    """0 … 1: which way is cut, how much of a disk is free, how slow it is."""


class TroublePlan:
    """Rounds without end; each fault comes once before any comes twice."""

    def __init__(self, seed: int, troubles: Sequence[Trouble] = tuple(Trouble)) -> None:
        assert troubles, "a plan needs something to happen"
        self._random = random.Random(seed)
        self._troubles = list(troubles)
        self._first = list(troubles)
        self._random.shuffle(self._first)

    def next_round(self) -> Round:
        draw = self._random
        # Always the same number of draws, so that one round's details do not move those of the next.
        trouble = draw.choices(self._troubles, [_WEIGHTS[trouble] for trouble in self._troubles])[0]
        is_master = draw.random() < 0.5
        before_s, lasts_s, detail = draw.uniform(*_BEFORE_S), draw.uniform(0, _LONGEST_S), draw.random()
        return Round(self._first.pop() if self._first else trouble, is_master, before_s, lasts_s, detail)
