"""The wall clock, which is passed as an argument to the code that needs the time of day.

Durations are measured with the event loop's ``time()`` instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Milliseconds: TypeAlias = Callable[[], int]
"""A function that returns the current time in milliseconds since the epoch."""


def wall_clock_ms() -> int:
    """Return the milliseconds since the epoch; may step backwards when the machine's clock is set."""
    return time.time_ns() // 1_000_000
