"""Delays of popped messages that could not be consumed; they grow with each delivery (upstream ``popDelayLevel``)."""

from __future__ import annotations

from typing import Final

POP_DELAYS: Final = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""The delays in seconds, by level from 0."""


def pop_delay(delay_level: int, reconsume_times: int) -> int:
    """Return the seconds until the message comes again.

    :param delay_level: the level of ``RetryLater``; 0: ``reconsume_times`` is the level.
    """
    level = delay_level or reconsume_times
    return POP_DELAYS[min(level, len(POP_DELAYS) - 1)]
