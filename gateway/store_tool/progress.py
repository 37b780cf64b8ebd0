"""The progress of a long walk: one redrawn line on a terminal, otherwise plain lines now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

_BAR_CHARS = 24
_MIB = 1024 * 1024
TERMINAL_INTERVAL_S = 0.2
PLAIN_INTERVAL_S = 5.0


class Progress:
    """The bytes done, the bytes in all, the speed in MB/s, and the time left.

    :param clock: returns seconds that never fall.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float], *, quiet: bool = False) -> None:
        self._out = out
        self._clock = clock
        self._quiet = quiet
        self._terminal = out.isatty()
        self._what = ""
        self._total = self._done = 0
        self._begun = 0.0
        self._drawn = 0.0

    def begin(self, what: str, total: int) -> None:
        """Start a walk.

        :param what: the name of the walk, a word or two.
        :param total: the bytes of the whole walk.
        """
        self._what, self._total, self._done = what, total, 0
        self._begun = self._drawn = self._clock()

    def more(self, count: int) -> None:
        """Show that ``count`` more bytes are done, if enough time has passed since the last line."""
        self.at(self._done + count)

    def at(self, done: int) -> None:
        """Show that ``done`` bytes are done, if enough time has passed since the last line."""
        self._done = done
        now = self._clock()
        interval = TERMINAL_INTERVAL_S if self._terminal else PLAIN_INTERVAL_S
        if self._quiet or now - self._drawn < interval:
            return
        self._drawn = now
        line = self._line(done, now - self._begun)
        self._out.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._out.flush()

    def end(self) -> None:
        """End the walk, and clear the line on a terminal."""
        if self._terminal and not self._quiet:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def _line(self, done: int, seconds: float) -> str:
        share = min(done / self._total, 1.0) if self._total else 1.0
        rate = done / seconds / 1e6 if seconds > 0 else 0.0
        left = f"{seconds / share - seconds:.0f} s left" if share > 0 else "…"
        figures = f"{share:4.0%}  {done // _MIB} of {self._total // _MIB} MiB  {rate:.0f} MB/s  {left}"
        if not self._terminal:
            return f"{self._what}: {figures.strip()}"
        filled = round(share * _BAR_CHARS)
        return f"{self._what} [{'#' * filled}{'.' * (_BAR_CHARS - filled)}] {figures}"
