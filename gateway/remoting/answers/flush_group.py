"""Channels with answers to write, written at once in each reactor turn.

Whoever completes a batch of answers calls ``flush`` after the last one: each channel is then written once, however many
answers it got. Without such a call the group flushes itself in the next turn. The group is *held* while a read is
dispatched, or while a function runs that may answer: the end of the hold flushes, so no timer is needed.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gateway.reactor.interface import TimeSource


class Flushable(Protocol):
    """The part of a channel that this group uses."""

    def write_out(self) -> None:
        """Write the gathered bytes; never raises because of the connection's state."""


class FlushGroup:
    """The channels of one process that have something to write."""

    def __init__(self, reactor: TimeSource) -> None:
        self._reactor = reactor
        self._marked: list[Flushable] = []
        self._held = False
        self._scheduled = False

    def mark(self, channel: Flushable) -> None:
        """Remember a channel that has gathered bytes; a channel marks itself once until it is written."""
        self._marked.append(channel)
        if not self._held and not self._scheduled:
            self.flush_soon()

    def hold(self) -> None:
        """Schedule no flush while a read is dispatched; ``flush`` follows."""
        self._held = True

    def carry_out(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function, then write the answers it made, even if it fails."""
        self._held = True
        try:
            function(*arguments)
        finally:
            self.flush()

    def flush_soon(self) -> None:
        """Flush in the next reactor turn."""
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._scheduled_flush)

    def flush(self) -> None:
        """Write every marked channel now, and end a hold."""
        self._held = False
        marked = self._marked
        if marked:
            self._marked = []
            for channel in marked:
                channel.write_out()

    def _scheduled_flush(self) -> None:
        self._scheduled = False
        self.flush()
