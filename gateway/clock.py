"""The wall clock, as an argument.

Code that needs to know the time takes a ``Milliseconds`` and never reads a clock itself, so a test
passes a function over a number it sets. ``wall_clock_ms`` is the only place of the gateway that reads
the time of day. Delays are not measured here: they are the reactor's ``callLater``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

Milliseconds = Callable[[], int]
"""Returns the current time as milliseconds since the epoch, like Java's ``System.currentTimeMillis``."""


END_OF_TIME_MS: Final = 2**62
"""Later than every time that is asked for, stored or waited for."""

_now_ns: Final = time.time_ns  # asked for every message, and before that for its name


def wall_clock_ms() -> int:
    """Milliseconds since the epoch; may step backwards when the machine's clock is set."""
    return _now_ns() // 1_000_000
