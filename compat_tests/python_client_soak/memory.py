"""The growth of memory: the slope of samples after a warm-up; pure except for reading a sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

MOST_GROWTH_KIB_PER_MINUTE = 64.0
"""A leak of 100 bytes for each message shows: at 600 messages a second it is 3,500 KiB a minute."""
WARM_UP_SHARE = 0.25
"""Of the time, in which caches fill and threads start."""

Sample = tuple[float, float]
"""Seconds since the begin, KiB."""


def resident_kib() -> int:
    """Return the resident memory of this process in KiB."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])


def growth_kib_per_minute(samples: Sequence[Sample]) -> float:
    """The slope of the line that fits best, after the warm-up; 0 of fewer than two samples."""
    if not samples:
        return 0.0
    begin = samples[-1][0] * WARM_UP_SHARE
    late = [(second / 60.0, kib) for second, kib in samples if second >= begin]
    if len(late) < 2:
        return 0.0
    mean_x = sum(x for x, _ in late) / len(late)
    mean_y = sum(y for _, y in late) / len(late)
    spread = sum((x - mean_x) ** 2 for x, _ in late)
    return sum((x - mean_x) * (y - mean_y) for x, y in late) / spread
