"""Judge how processor time grows with the input: a function that needs four times as long for twice as much fails."""

from __future__ import annotations

from collections.abc import Callable

from wire.tests.growth import MOST_PER_DOUBLING, processor_seconds

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
        single, double = (
            min(processor_seconds(function) for _ in range(RUNS)) for function in (run(size), run(2 * size))
        )
        if double < NEGLIGIBLE_S or double <= MOST_PER_DOUBLING * single:
            return
        ratios.append(double / single)
    raise AssertionError(f"twice the input of {size} takes {', '.join(f'{each:.1f}' for each in ratios)} times as long")
