"""The limit for bytes of incomplete frames that all connections of one server hold.

One connection cannot hold more than a frame, but thousands of connections, each with most of a frame, could take all
memory. Over the limit, the connection that holds the most is dropped, not the one whose read came last. The last read
may be from any client with half a request on its way, so a few slow peers could have all other clients dropped.
Upstream has no such limit.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Protocol


class FrameHolder(Protocol):
    """The part of a connection that concerns its incomplete frame; connections are compared by identity."""

    def drop(self, reason: str) -> None:
        """Close at once, hold nothing any more, and report so to ``IncompleteFrames.holds``."""


class IncompleteFrames:
    """The bytes of each connection with an incomplete frame; other connections are not in here.

    :param limit_bytes: at least the longest frame, so that a lone connection is never dropped.
    """

    __slots__ = ("_bytes_by_holder", "_limit_bytes", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.total_bytes = 0
        self._limit_bytes = limit_bytes
        self._bytes_by_holder: dict[FrameHolder, int] = {}

    def holds(self, holder: FrameHolder, held_bytes: int) -> None:
        """Note how many bytes a connection holds now; 0 if its frame is complete or the connection is closed."""
        held = self._bytes_by_holder
        self.total_bytes += held_bytes - held.get(holder, 0)
        if held_bytes:
            held[holder] = held_bytes
        else:
            held.pop(holder, None)
        if self.total_bytes > self._limit_bytes:
            self._drop_largest()

    def _drop_largest(self) -> None:
        # To drop one connection is enough: the largest holds at least as many bytes as the connection that has just
        # grown, and so at least as many bytes as were just added.
        largest = max(self._bytes_by_holder, key=self._bytes_by_holder.__getitem__)
        largest.drop(
            f"gateway.incompleteFrameBytesLimit: incomplete frames take more than {self._limit_bytes} bytes, "
            f"and no connection holds more of them than this one, {self._bytes_by_holder[largest]} bytes"
        )
