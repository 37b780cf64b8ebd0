"""How far a long walk is: one line that is drawn again on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

_BAR_CHARS = 24
_MIB = 1024 * 1024
TERMINAL_INTERVAL_S = 0.2
PLAIN_INTERVAL_S = 5.0


class Progress:
    """Bytes done of bytes in all, with MB/s and the time that is left.

    :param clock: seconds, never falling.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float], *, quiet: bool = False) -> None:
        self._out = out
        self._clock = clock
        self._quiet = quiet
        self._terminal = out.isatty()
        self._what = ""
        self._total = 0
        self._begun = 0.0
        self._drawn = 0.0

    def begin(self, what: str, total: int) -> None:
        """A walk starts; ``what`` is a word or two."""
        self._what, self._total = what, total
        self._begun = self._drawn = self._clock()

    def at(self, done: int) -> None:
        """So many bytes are done."""
        now = self._clock()
        interval = TERMINAL_INTERVAL_S if self._terminal else PLAIN_INTERVAL_S
        if self._quiet or now - self._drawn < interval:
            return
        self._drawn = now
        line = self._line(done, now - self._begun)
        self._out.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._out.flush()

    def end(self) -> None:
        """The walk is over: the line goes away."""
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
