"""The plan of a run: which faults the broker meets, when and in which order, drawn from the seed alone. No I/O.

The same seed gives the same rounds on every machine; what the clients do in between is theirs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from compat_tests.soak.failing_files import CHANGES, Order


class Fault(StrEnum):
    """The fault of a round."""

    KILL = "kill"
    STOP = "stop"
    DISK_FULL = "disk-full"
    READ_ONLY = "read-only"
    EIO = "eio"


class Moment(StrEnum):
    """The moment of a kill."""

    LOAD = "load"  # at any time
    ROLL = "roll"  # a file of the log, a queue or the index has just been made
    RETENTION = "retention"  # files are being deleted
    START = "start"  # and once more while it starts


_WEIGHTS = {Fault.KILL: 12, Fault.STOP: 1, Fault.DISK_FULL: 2, Fault.READ_ONLY: 1, Fault.EIO: 4}
_MOMENTS = {Moment.LOAD: 5, Moment.ROLL: 4, Moment.RETENTION: 3, Moment.START: 2}
_WRITES = ("pwrite", "pwritev")
_SYNCS = ("fdatasync",)
_FAILURES = (
    (_SYNCS, "/commitlog/"),
    (_WRITES, "/commitlog/"),
    (_SYNCS, "/consumequeue/"),
    (_WRITES, "/consumequeue/"),
    (_SYNCS, "/index/"),
    (_WRITES, "/checkpoint"),
)
"""What fails on a disk with errors. The first two come twice as often: there promises are kept. What is derived from
the log must not be believed after a failure either."""
_LONGEST_WAIT_S = 1.5


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the fault, the moment of its kill, and its random details."""

    fault: Fault
    moment: Moment
    delay_s: float
    """After all clients got on."""
    second_delay: float
    """0 … 1: how far into the start, the deleting or the roll."""
    order: Order
    """For a disk that fails."""
    kills_inside: bool
    """Whether the kill comes while the fault lasts, or after it."""


class Plan:
    """Rounds without end; each fault, and each failure of a disk, comes once before any comes twice."""

    def __init__(self, seed: int, faults: Sequence[Fault]) -> None:
        assert faults, "a plan needs something to happen"
        self._random = random.Random(seed)
        self._faults = list(faults)
        self._first = list(faults)
        self._random.shuffle(self._first)
        self._failures = list(_FAILURES)

    def next_round(self) -> Round:
        draw = self._random
        weights = [_WEIGHTS[fault] for fault in self._faults]
        # Always the same number of draws, so that one round's details do not move those of the next.
        fault = draw.choices(self._faults, weights)[0]
        moment = draw.choices(list(_MOMENTS), list(_MOMENTS.values()))[0]
        delay_s = draw.uniform(0, _LONGEST_WAIT_S)
        second_delay = draw.random()
        order = self._order()
        inside = draw.random() < 0.5
        if self._first:
            fault = self._first.pop()
        if fault is Fault.EIO and self._failures:
            operations, part = self._failures.pop(0)
            order = replace(order, operations=operations, part=part)
        if fault is Fault.READ_ONLY:
            order = Order("EROFS", CHANGES, after=order.after, lasting=True)
        return Round(fault, moment, delay_s, second_delay, order, inside)

    def _order(self) -> Order:
        draw = self._random
        operations, part = draw.choice([*_FAILURES, *_FAILURES[:2]])
        # Derived files are written less often: the failure shall come within a second or two.
        after = draw.randrange(1, 60 if "commitlog" in part else 10)
        lasting = draw.random() < 0.3
        return Order("EIO", operations, after, part, lasting)
