"""The end of a reactor turn: when everything that had arrived was read, and before the reactor waits again.

A timer without delay comes to the same, at the price of a heap entry, two looks at the clock and a line of Twisted's
bookkeeping. There are two such calls for every batch of messages, so they go around the timers here.

What a turn costs is shared by all that was read in it, so it is looked once more for what came while the first was
dealt with. Giving way to other processes before that makes turns larger still, but where the machine has other work to
do it halves what few senders get done.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable

from gateway.reactor.interface import QuickReactor
from gateway.telemetry.logs import EventLog

log = EventLog("remoting")


class TurnEnd:
    """Runs functions at the end of the turn in which they are given; those they give in turn, at the next one's.

    :param reactor: its ``doIteration`` is replaced; Twisted's reactors implement that to read and wait once.
    :param carry_out: calls a function, and writes out what that answered before the next one runs.
    """

    __slots__ = ("_carry_out", "_functions", "_iterate")

    def __init__(self, reactor: QuickReactor, carry_out: Callable[[Callable[[], None]], None]) -> None:
        self._carry_out = carry_out
        self._functions: list[Callable[[], None]] = []
        self._iterate = reactor.doIteration
        reactor.doIteration = self._iteration  # type: ignore[method-assign]

    def call(self, function: Callable[[], None]) -> None:
        """Run a function at the end of this turn; on the reactor's thread only."""
        self._functions.append(function)

    def _iteration(self, delay: float | None) -> None:
        self._iterate(0 if self._functions else delay)
        if not self._functions:
            return
        self._iterate(0)
        functions, self._functions = self._functions, []
        for function in functions:
            try:
                self._carry_out(function)
            except Exception as error:  # noqa: BLE001 - the loop goes on, as Twisted's own does after a failed timer
                log.error("end of turn failed", failure=error)
