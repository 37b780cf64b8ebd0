"""The end of a log that a start found on the disk and does not know to be replicated: hidden, then shown bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from gateway.replication.replicated_mark import ReplicatedMark

Show: TypeAlias = Callable[[int, bool], bool]
"""Shows a part of the log up to a place, with True of all that was hidden; returns False if there was none."""


class HidingLog(Protocol):
    """The log, as far as a part of it is hidden; ``MessageStore`` is one."""

    @property
    def min_commit_log_offset(self) -> int:
        """The offset of the first record."""

    @property
    def hidden_from(self) -> int | None:
        """The offset from which on the log is hidden; None if nothing is."""

    def last_record_end(self) -> int:
        """Return the offset after the last record; a filler may follow."""

    def hide_from(self, place: int, /) -> None:
        """Hide everything after a place."""


class HiddenTail:
    """The hidden end, and the file that says where it begins at the next start.

    :param soon: runs a function in a later turn of the reactor: much is shown in many turns.
    """

    def __init__(self, mark: ReplicatedMark, soon: Callable[[Callable[[], None]], None]) -> None:
        self._mark = mark
        self._soon = soon
        self._marked = 0
        self._log: HidingLog | None = None
        self._show: Show | None = None
        self._told: Callable[[], None] = _nobody
        self._wanted = 0
        self._is_showing = False
        self.shown_end = self.end = 0
        """The hidden part; empty if nothing is hidden."""

    def begin(self, store: HidingLog, show: Show, *, shows_all: bool) -> None:
        """Hide what the store found on the disk and is not known to be replicated; blocks.

        :param shows_all: True if all of the log is to be shown, whatever is known.
        :raises OSError: the file cannot be read or written.
        """
        self.end = end = store.last_record_end()  # a filler after it is copied together with the next record
        known = self._mark.load()
        start = end if shows_all or known is None else min(max(known, store.min_commit_log_offset), end)
        self._mark.begin(start)
        self._marked = self._wanted = self.shown_end = start
        if start < end:
            self._log = store
            self._show = show
            store.hide_from(start)

    def when_shown(self, told: Callable[[], None]) -> None:
        """Call ``told`` whenever a part was shown."""
        self._told = told

    @property
    def is_noted(self) -> bool:
        """True if it is noted how far the log is replicated; blocks.

        :raises OSError: the file cannot be read.
        """
        return self._mark.load() is not None

    @property
    def bytes(self) -> int:
        """The bytes that are hidden."""
        return self.end - self.shown_end

    def note(self, end: int) -> None:
        """Note that the log is replicated up to an offset, before anything more is shown."""
        if end > self._marked:
            self._marked = end
            self._mark.move(end)

    def show_to(self, end: int) -> None:
        """Show what lies below an offset: a part at once, and the rest in later turns."""
        self._wanted = max(self._wanted, min(end, self.end))
        if self._wanted > self.shown_end and not self._is_showing:
            self._go_on()

    def _go_on(self) -> None:
        show, log = self._show, self._log
        if show is None or log is None:
            return
        self._is_showing = True  # those who are told of what is shown may have more shown
        goes_on = show(self._wanted, self._wanted == self.end)
        before, place = self.shown_end, log.hidden_from
        self.shown_end = self.end if place is None else place
        if place is None:
            self._show = None
        elif goes_on:
            self._soon(self._go_on)
        self._is_showing = goes_on and place is not None
        if self.shown_end > before:
            self._told()

    def forget(self) -> None:
        """Hide nothing, now and at the next start: nobody waits for slaves; blocks.

        :raises OSError: the file cannot be removed.
        """
        self._mark.remove()

    def close(self) -> None:
        """Show no more, and close the file."""
        self._show = None
        self._mark.close()


def _nobody() -> None:
    """Tell nobody."""
