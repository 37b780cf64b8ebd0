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
from typing import Any

from gateway.telemetry.logs import EventLog

log = EventLog("remoting")


class TurnEnd:
    """Runs functions at the end of the turn in which they are given; those they give in turn, at the next one's.

    :param reactor: one with ``doIteration``, which is what Twisted's reactors implement to read and wait once. Any
        other, the memory reactor of tests among them, gets timers without delay.
    :param carry_out: calls a function, and writes out what that answered before the next one runs.
    """

    __slots__ = ("_carry_out", "_functions", "_iterate", "_reactor")

    def __init__(self, reactor: Any, carry_out: Callable[[Callable[[], None]], None]) -> None:
        self._reactor = reactor
        self._carry_out = carry_out
        self._functions: list[Callable[[], None]] = []
        self._iterate: Callable[[float | None], None] | None = getattr(reactor, "doIteration", None)
        if self._iterate is not None:
            reactor.doIteration = self._iteration

    def call(self, function: Callable[[], None]) -> None:
        """Run a function at the end of this turn; on the reactor's thread only."""
        if self._iterate is None:
            self._reactor.callLater(0, self._carry_out, function)
        else:
            self._functions.append(function)

    def _iteration(self, delay: float | None) -> None:
        assert self._iterate is not None, "only a reactor that has it calls it"
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
