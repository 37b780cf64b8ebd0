"""The pace at which one slave gets the log: bytes a second, as far as the settings limit them."""

from __future__ import annotations

SECOND_S = 1.0


class Pace:
    """The bytes that one slave may get in the second that runs.

    A record that is longer than what is left is sent all the same; the next seconds pay for the rest of it.
    """

    __slots__ = ("_begun_s", "_debt", "_excess", "_left", "_sent")

    def __init__(self, now_s: float) -> None:
        self._begun_s = now_s
        self._sent = self._left = self._excess = self._debt = 0

    def left(self, now_s: float, most: int) -> int:
        """Return how many bytes may be sent now, if ``most`` may be sent in each second."""
        seconds = int((now_s - self._begun_s) / SECOND_S)
        if seconds > 0:
            self._begun_s += seconds * SECOND_S
            self._debt = max(max(self._debt - most, 0) + self._excess - (seconds - 1) * most, 0)
            self._sent = self._excess = 0
        self._left = max(most - self._debt - self._sent, 0)
        return self._left

    def sent(self, count: int) -> None:
        """Note that bytes were sent after a call of ``left``."""
        self._sent += count
        self._excess += max(count - self._left, 0)

    def wait_s(self, now_s: float) -> float:
        """Return how many seconds are left of the second that runs."""
        return max(self._begun_s + SECOND_S - now_s, 0.0)
