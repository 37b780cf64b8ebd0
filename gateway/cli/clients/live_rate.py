"""Progress lines of long commands on standard error: a rate, or the share that is done.

On a terminal, one line is overwritten. Otherwise only the last line is written, so that logs stay readable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

BAR_CHARS = 30
INTERVAL_S = 0.5
"""Seconds between two lines on a terminal."""


@dataclass(slots=True)
class LiveRate:
    """A counter of messages, which shows their number and rate.

    :param clock: seconds that only grow.
    :param total: how many messages there will be; None if unknown.
    :param verb: the word after the number: ``"messages sent"``.
    """

    clock: Callable[[], float]
    output: TextIO
    verb: str
    total: int | None = None
    count: int = 0
    _begun: float = field(default=0.0, init=False)
    _shown: float = field(default=0.0, init=False)
    _shown_count: int = field(default=0, init=False)
    _is_terminal: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._begun = self._shown = self.clock()
        self._is_terminal = self.output.isatty()

    def add(self, count: int = 1) -> None:
        """Count more messages, and show the number now and then."""
        self.count += count
        if self._is_terminal:
            self.show()

    def show(self) -> None:
        """Write the line again, unless it was written less than ``INTERVAL_S`` seconds ago."""
        now = self.clock()
        if self._is_terminal and now - self._shown >= INTERVAL_S:
            rate = (self.count - self._shown_count) / (now - self._shown)
            self.output.write(f"\r\x1b[K{self._text(rate)}")
            self.output.flush()
            self._shown, self._shown_count = now, self.count

    def end(self) -> None:
        """Write the last line: the number of all messages, with the mean rate."""
        seconds = self.clock() - self._begun
        rate = self.count / seconds if seconds > 0 else 0.0
        start = "\r\x1b[K" if self._is_terminal else ""
        self.output.write(f"{start}{self.count:,} {self.verb} in {seconds:.1f} s, {rate:,.0f}/s\n")
        self.output.flush()

    def _text(self, rate: float) -> str:
        if not self.total:
            return f"{self.count:,} {self.verb}, {rate:,.0f}/s"
        done = min(self.count / self.total, 1.0)
        bar = "#" * int(done * BAR_CHARS)
        left = f", {(self.total - self.count) / rate:,.0f} s left" if rate > 0 and self.count < self.total else ""
        return f"[{bar:<{BAR_CHARS}}] {done:4.0%}  {self.count:,} of {self.total:,} {self.verb}, {rate:,.0f}/s{left}"
