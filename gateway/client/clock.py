"""The wall clock and the process, as arguments of whatever needs them.

Durations are not measured here: they are the event loop's ``time()``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Milliseconds: TypeAlias = Callable[[], int]
"""Returns the current time as milliseconds since the epoch."""


def wall_clock_ms() -> int:
    """Milliseconds since the epoch; may step backwards when the machine's clock is set."""
    return time.time_ns() // 1_000_000
