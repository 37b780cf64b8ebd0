"""When a popped message that could not be consumed comes again: later with each time (upstream ``popDelayLevel``)."""

from __future__ import annotations

from typing import Final

POP_DELAYS: Final = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds."""


def pop_delay(delay_level: int, reconsume_times: int) -> int:
    """Seconds until it comes again.

    :param delay_level: of ``RetryLater``; 0: by how often it was delivered before.
    """
    level = delay_level or reconsume_times
    return POP_DELAYS[min(level, len(POP_DELAYS) - 1)]
