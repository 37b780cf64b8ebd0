"""A clock that starts at the time of day and then never jumps, for ages and due times.

A machine's clock that is set back or forth must not bring checks early or late. At the next start the
times on disk are compared with the new time of day; until then only what really passed counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.clock import Milliseconds


def steady_clock(wall_clock_ms: Milliseconds, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> Milliseconds:
    """Milliseconds since the epoch, as of now by ``wall_clock_ms`` and later by ``monotonic_ns``."""
    start_ms = wall_clock_ms() - monotonic_ns() // 1_000_000

    def now_ms() -> int:
        return start_ms + monotonic_ns() // 1_000_000

    return now_ms
