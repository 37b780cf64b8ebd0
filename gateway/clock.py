"""The wall clock, which is passed as an argument to the code that needs the time of day.

Code that needs the time takes a ``Milliseconds`` and never reads a clock itself. So a test can pass a function over a
number that the test sets. ``wall_clock_ms`` is the only place of the gateway that reads the time of day. Delays do not
use this clock: they use the reactor's ``callLater``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

Milliseconds = Callable[[], int]
"""A function that returns the current time in milliseconds since the epoch, as Java's ``System.currentTimeMillis``."""


END_OF_TIME_MS: Final = 2**62
"""A time in milliseconds that is later than every time that is requested, stored or waited for."""

_now_ns: Final = time.time_ns  # asked for every message, and before that for its name


def wall_clock_ms() -> int:
    """Return the milliseconds since the epoch; may step backwards when the machine's clock is set."""
    return _now_ns() // 1_000_000


def steady_clock(wall_clock_ms: Milliseconds, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> Milliseconds:
    """Return a clock of epoch milliseconds that starts with ``wall_clock_ms`` and goes on with ``monotonic_ns``.

    The clock is for ages and due times: setting the machine's clock must not bring checks of transactions early or
    late. The next start compares the times on disk with the new time of day.
    """
    return partial(_steady_ms, wall_clock_ms() - monotonic_ns() // 1_000_000, monotonic_ns)


def _steady_ms(start_ms: int, monotonic_ns: Callable[[], int]) -> int:
    return start_ms + monotonic_ns() // 1_000_000
