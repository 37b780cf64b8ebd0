"""Judge how processor time grows with the input: a function that needs four times as long for twice as much fails."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time

MOST_PER_DOUBLING = 3.0
"""A linear function grows by 2, a quadratic one by 4."""
NEGLIGIBLE_S = 0.0005
"""A time that says nothing about growth, and troubles nobody at the sizes that limits allow."""
RUNS = 3
ATTEMPTS = 6


def assert_grows_in_step(run: Callable[[int], Callable[[], object]], size: int) -> None:
    """Assert that twice the input takes at most three times as long.

    The smallest of several times counts, and a machine that was disturbed gets further attempts.

    :param run: prepares an input of a size; the function that it returns is timed.
    """
    ratios: list[float] = []
    for _ in range(ATTEMPTS):
        single, double = _seconds(run(size)), _seconds(run(2 * size))
        if double < NEGLIGIBLE_S or double <= MOST_PER_DOUBLING * single:
            return
        ratios.append(double / single)
    raise AssertionError(f"twice the input of {size} takes {', '.join(f'{each:.1f}' for each in ratios)} times as long")


def _seconds(function: Callable[[], object]) -> float:
    """Return the least processor time of several runs, without garbage collections."""
    least = float("inf")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(RUNS):
            start = process_time()
            function()
            least = min(least, process_time() - start)
    finally:
        if was_enabled:
            gc.enable()
    return least
