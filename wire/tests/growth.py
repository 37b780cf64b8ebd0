"""Judges how the time of a function grows with its input."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

MOST_PER_DOUBLING = 3.0
"""Twice the input may take this much longer; a function that looks at each byte once takes twice as long."""
MEASURABLE_S = 0.001
FIRST_SIZE = 256
LARGE = 16
"""A large input is this many times as large as a small one: beside it, a cache that ends in between says little."""
_TRIES = 4


def growth_per_doubling(work: Callable[[Any], object], make: Callable[[int], Any], largest: int = 1 << 20) -> float:
    """Return how much more processor time an input of twice the size takes: the least of several looks.

    :param work: takes an input and may fail in any way.
    :param make: gives the input of a size.
    :param largest: no input of more than four times this size is made.
    """
    size = FIRST_SIZE
    while size < largest and _seconds(work, make(size)) < MEASURABLE_S:
        size *= 2
    least = float("inf")
    for tries in range(1, _TRIES + 1):
        large_size = min(LARGE * size, 4 * largest)
        small, large = make(size), make(large_size)
        quick = min(_seconds(work, small) for _ in range(tries + 1))
        slow = min(_seconds(work, large) for _ in range(tries + 1))
        # What is too quick to be measured at its largest size does no harm.
        counted = max(quick, MEASURABLE_S) if size >= largest else quick
        least = min(least, (slow / counted) ** (1 / math.log2(large_size / size)))
        if least <= MOST_PER_DOUBLING:
            break
        size = min(2 * size, largest)  # where little is measured, a page of memory more is much
    return least


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time, without garbage collections: these look at all objects of earlier tests, too."""
    was_enabled = gc.isenabled()
    gc.disable()
    start = time.thread_time()
    try:
        work()
        return time.thread_time() - start
    finally:
        if was_enabled:
            gc.enable()


def _seconds(work: Callable[[Any], object], value: Any) -> float:
    def tried() -> None:
        try:
            work(value)
        except (AttributeError, NameError, TypeError):
            raise  # a mistake of the test, or of the parser
        except Exception:  # noqa: BLE001 - hostile input is refused in many ways, all of them fine here
            pass

    return processor_seconds(tried)
