"""The end of a reactor's turn: after everything that had arrived was read, and before the reactor waits again.

A timer without delay would do the same, but costs a heap entry, two reads of the clock and some of Twisted's
bookkeeping. Every batch of messages makes two such calls, so they do not use timers here.

Everything that is read in a turn shares the costs of the turn. Before a turn ends, the reactor therefore polls once
more, so that late arrivals join the same batch. Giving way to other processes before that poll would make turns larger
still. But where the machine has other work, it would halve the throughput of a few senders.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable

from gateway.reactor.interface import QuickReactor
from gateway.telemetry.logs import EventLog

log = EventLog("remoting")


class TurnEnd:
    """Runs functions at the end of the turn in which they are given.

    A function that is given while these functions run, runs at the end of the next turn.

    :param reactor: the reactor whose ``doIteration`` is replaced; Twisted's reactors read and wait once there.
    :param carry_out: calls a function, and writes out the answers that it made before the next function runs.
    """

    def __init__(self, reactor: QuickReactor, carry_out: Callable[[Callable[[], None]], None]) -> None:
        self._carry_out = carry_out
        self._functions: list[Callable[[], None]] = []
        self._iterate = reactor.doIteration
        reactor.doIteration = self._iteration  # type: ignore[method-assign]

    def call(self, function: Callable[[], None]) -> None:
        """Run a function at the end of this turn; call this on the reactor's thread only."""
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
