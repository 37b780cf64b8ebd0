"""One row of the comparison: a question, how it is measured, and what the project promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.servers import Flush, Kind


@dataclass(frozen=True, slots=True)
class Effort:
    """The length of a measurement: seconds, messages of a backlog, repetitions."""

    warm_up_s: int
    measured_s: int
    backlog: int
    runs: int


FULL = Effort(warm_up_s=10, measured_s=20, backlog=1_200_000, runs=3)
QUICK = Effort(warm_up_s=4, measured_s=6, backlog=300_000, runs=1)


@dataclass(frozen=True, slots=True)
class Measured:
    """One server's numbers; `values` by name with the unit last, absent where they make no sense.

    Without any it was not measured, or `failed` when that was tried.
    """

    values: dict[str, float] = field(default_factory=dict)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A question; `goals` are ratios gateway / Apache by value name: least for rates, most for the rest.

    `own_goals` are least values of the gateway itself.
    """

    name: str
    measure: Callable[[Kind, Effort], Measured]
    goals: dict[str, float] = field(default_factory=dict)
    own_goals: dict[str, float] = field(default_factory=dict)
    flush: Flush = "ASYNC_FLUSH"


# More is better for these; for all others less is.
RATES = frozenset({"messages_per_s", "delivered_per_s"})
