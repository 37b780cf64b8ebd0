"""The growth of an operation's work when the tables that it walks are doubled.

Processor time is compared with processor time, the least of several runs, so that a busy machine changes little.
"""

from __future__ import annotations

from collections.abc import Callable

from wire.tests.growth import processor_seconds

MOST_GROWTH = 3.0
"""Linear work doubles, sorting does a little more; work that is quadratic becomes four times as much."""
NOISE_S = 0.004
"""Processor seconds that do not count: what is quadratic takes much longer at the sizes that tests use."""
RUNS = 4
"""Of the most runs that a case may need, the quickest counts; most cases need one."""

Prepared = Callable[[], object]
"""Does the operation once."""


def check_growth(prepare: Callable[[int], Prepared], size: int, name: str) -> None:
    """Fail when an operation takes more than three times as long with tables of twice the size.

    :param prepare: makes tables of a size; called again for each run, since an operation may change them.
    """
    single = double = float("inf")
    for _ in range(RUNS):
        single = min(single, processor_seconds(prepare(size)))
        double = min(double, processor_seconds(prepare(2 * size)))
        if double <= MOST_GROWTH * single + NOISE_S:
            return
    raise AssertionError(f"{name}: {single * 1e3:.1f} ms with {size} entries, {double * 1e3:.1f} ms with {2 * size}")
