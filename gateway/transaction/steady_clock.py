"""A clock that starts at the time of day and never jumps afterwards, for ages and due times.

Setting the machine's clock forward or back must not bring checks early or late. The next start compares the times on
disk with the new time of day. Until then only the time that really passed counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.clock import Milliseconds


def steady_clock(wall_clock_ms: Milliseconds, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> Milliseconds:
    """Return a clock of epoch milliseconds that starts with ``wall_clock_ms`` and goes on with ``monotonic_ns``."""
    start_ms = wall_clock_ms() - monotonic_ns() // 1_000_000

    def now_ms() -> int:
        return start_ms + monotonic_ns() // 1_000_000

    return now_ms
