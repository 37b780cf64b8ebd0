"""The end of a log that a start found on the disk and does not know to be replicated: hidden, then shown bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from gateway.replication.replicated_mark import ReplicatedMark

MAX_SHOWS = 1_000
"""The number of steps in which all that was hidden at a start is shown: each looks at all queues with a part of it."""
Show: TypeAlias = Callable[[int, bool], None]
"""Shows the log up to a place; with True that is all that was hidden."""


class HidingLog(Protocol):
    """The log, as far as a part of it is hidden; ``MessageStore`` is one."""

    @property
    def min_commit_log_offset(self) -> int:
        """The offset of the first record."""

    def last_record_end(self) -> int:
        """Return the offset after the last record; a filler may follow."""

    def hide_from(self, place: int, /) -> None:
        """Hide everything after a place."""


class HiddenTail:
    """The hidden end, and the file that says where it begins at the next start."""

    def __init__(self, mark: ReplicatedMark) -> None:
        self._mark = mark
        self._marked = 0
        self._show: Show | None = None
        self._least_shown = 0
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
        self._marked = self.shown_end = start
        if start < end:
            self._show = show
            self._least_shown = (end - start) // MAX_SHOWS
            store.hide_from(start)

    @property
    def bytes(self) -> int:
        """The bytes that are hidden."""
        return self.end - self.shown_end

    def note(self, end: int) -> None:
        """Note that the log is replicated up to an offset, before anything more is shown."""
        if end > self._marked:
            self._marked = end
            self._mark.move(end)

    def show_to(self, end: int) -> bool:
        """Show what lies below an offset, if that is enough for a step; return whether anything was shown."""
        show, place = self._show, min(end, self.end)
        is_all = place == self.end
        if show is None or place <= self.shown_end or (place - self.shown_end < self._least_shown and not is_all):
            return False
        self.shown_end = place
        if is_all:
            self._show = None
        show(place, is_all)
        return True

    def forget(self) -> None:
        """Hide nothing, now and at the next start: nobody waits for slaves; blocks.

        :raises OSError: the file cannot be removed.
        """
        self._mark.remove()

    def close(self) -> None:
        """Close the file."""
        self._mark.close()
