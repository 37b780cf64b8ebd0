"""The progress of the store: what readers may see, and what is known to be on disk.

``flushed`` ≤ the visible end ≤ the appended end. The commit log itself knows the last two (``visible_end``,
``position``); ``dispatched_end`` says how far queues and index have followed the log.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations


class StoreProgress:
    """Offsets of the commit log. A plain class: every batch changes the offsets, and any thread reads them.

    - ``dispatched_end``: readers see the consume queue units of all messages below this offset.
    - ``written_end``: the units of all messages below this offset are in their files.
    - ``dispatched_ms``: the store time of the last dispatched message, in milliseconds.
    - ``dispatched_count``: the number of messages dispatched since the start.
    - ``saved_count``: the number of these messages that a flush has brought to the disk with their queues.
    """

    __slots__ = ("dispatched_count", "dispatched_end", "dispatched_ms", "flushed", "saved_count", "written_end")

    def __init__(self) -> None:
        self.flushed = 0
        self.dispatched_end = 0
        self.dispatched_ms = 0
        self.dispatched_count = 0
        self.saved_count = 0
        self.written_end = 0
