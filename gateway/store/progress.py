"""How far the store is: what readers may see, and what is known to be on disk.

``flushed`` ≤ what is visible ≤ what is appended. The commit log itself knows the last two (``visible_end``,
``position``); what was derived from it follows in ``dispatched_end``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations


class StoreProgress:
    """Offsets of the commit log. A plain class: moved on with every batch, read in any thread.

    Units of what lies below ``dispatched_end`` are shown, of what lies below ``written_end`` they are in their files.
    ``dispatched_ms`` is the store time of the last dispatched message, ``dispatched_count`` how many were dispatched
    since the start, ``saved_count`` how many of these a flush has brought to the disk with their queues.
    """

    __slots__ = ("dispatched_count", "dispatched_end", "dispatched_ms", "flushed", "saved_count", "written_end")

    def __init__(self) -> None:
        self.flushed = 0
        self.dispatched_end = 0
        self.dispatched_ms = 0
        self.dispatched_count = 0
        self.saved_count = 0
        self.written_end = 0
