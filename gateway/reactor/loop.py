"""What a broker asks of the loop beyond time, TCP and threads, on any reactor of Twisted's and on a quicker one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.reactor.interface import QuickReactor
from gateway.reactor.turn_end import TurnEnd

CarryOut = Callable[..., None]
"""Calls a function with its arguments, and writes out the answers that it made."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The end of a turn, and the two ways in which a quick reactor waits for threads and disks.

    ``at_end_of_turn`` runs a function after all that had arrived was read, or soon after; on the reactor's thread only.
    ``expect_call`` and ``wait_for`` are those of ``QuickReactor``, None on a reactor that has neither.
    """

    at_end_of_turn: Callable[[Callable[[], None]], None]
    expect_call: Callable[[bool], None] | None = None
    wait_for: Callable[[Callable[[], Any], Callable[[Any], None]], None] | None = None


def loop_on(reactor: Any, carry_out: CarryOut) -> Loop:
    """Return the quick ways where the reactor has them, the plain ones on every other reactor."""
    if isinstance(reactor, QuickReactor):
        return Loop(TurnEnd(reactor, carry_out).call, reactor.expect_call, reactor.wait_for)
    return Loop(lambda function: reactor.callLater(0, carry_out, function))
