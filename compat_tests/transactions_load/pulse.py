"""Notices when a process does not get to run: its times of what happened are then as late as that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

BEAT_S = 0.05
STALL_S = 0.25
"""So much later than it should is a stall; half of what would make two checks look like one too many."""


class Pulse:
    """A thread that wants to run every 50 ms.

    :param stalled: called with the seconds for which it did not, as soon as it does again.
    """

    def __init__(self, stalled: Callable[[float], None]) -> None:
        self._stalled = stalled
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        begun = time.monotonic()
        while not self._ended.wait(BEAT_S):
            now = time.monotonic()
            if now - begun - BEAT_S > STALL_S:
                self._stalled(now - begun)
            begun = now
