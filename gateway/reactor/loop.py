"""The loop's services for a broker beyond time, TCP and threads, on any Twisted reactor and on a quicker one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.reactor.interface import QuickReactor
from gateway.reactor.turn_end import TurnEnd

CarryOut = Callable[..., None]
"""A function that calls another with its arguments, and writes out the answers that were made there."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The functions of a reactor that a broker needs besides timers, sockets and threads.

    ``at_end_of_turn`` runs a function after all bytes that had arrived are read, or soon after. Call ``at_end_of_turn``
    on the reactor's thread only. ``expect_call`` and ``wait_for`` are methods of ``QuickReactor``; on any other reactor
    both are None.
    """

    at_end_of_turn: Callable[[Callable[[], None]], None]
    expect_call: Callable[[bool], None] | None = None
    wait_for: Callable[[Callable[[], Any], Callable[[Any], None]], None] | None = None


def loop_on(reactor: Any, carry_out: CarryOut) -> Loop:
    """Return the quick ways if the reactor has them; the plain ways on every other reactor."""
    if isinstance(reactor, QuickReactor):
        return Loop(TurnEnd(reactor, carry_out).call, reactor.expect_call, reactor.wait_for)
    return Loop(lambda function: reactor.callLater(0, carry_out, function))
