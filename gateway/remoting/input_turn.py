"""The time that all connections of a server have in one turn of the reactor, and who waits for the next turns.

One poll may report a thousand connections, and each of them may have sent a costly request. A server carries requests
out until they have taken ``TURN_S`` together; the bytes of every other connection wait in line. Each turn begins with
those who wait. Connections whose requests have been quick for a while have a line of their own and come first, so that
they wait for few costly requests; at least one of the other connections has its turn all the same. Both lines are fair
to hosts, and a short read is not behind long ones: a client that has just connected, and is not known to be quick, does
not wait for all who are slow.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from gateway.fair_line import FairLine
from gateway.reactor.interface import TimeSource
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.telemetry.logs import EventLog

log = EventLog("remoting")

TURN_S: Final = 0.02
"""Seconds that the requests of all connections take together in one turn of the reactor, and the last one longer."""
COSTLY_S: Final = TURN_S / 2
"""A request, or a few of one read, that took this many seconds of the processor is costly."""
QUICK_READS: Final = 16
"""Quick reads after which a connection is known to be quick; a costly one takes as many of them back."""
MOST_QUICK_READS: Final = 2 * QUICK_READS
"""More are not counted; a connection with as many stays quick with one costly request among them."""
LEAST_COST_S: Final = 0.0001
"""Seconds that a read is expected to take at least."""
BYTE_COST_S: Final = 1e-7
"""Seconds that each byte of a read is expected to take: a heartbeat of 400 KB takes 30 ms."""
MAX_LEFT: Final = 100
"""Closed connections whose one-way requests wait for a turn; what others left is dropped."""


class InLine(Protocol):
    """A connection that waits for its turn."""

    def go_on(self) -> None:
        """Carry out what waits, for as long as the turn is not over."""

    def drop(self, reason: str) -> None:
        """Close the connection: going on has failed."""


class InputTurn:
    """The turns of one server or client. A plain class: every read of every connection uses it.

    :param flush_group: writes what is answered.
    """

    __slots__ = (
        "_is_ordered",
        "_others",
        "_quick",
        "_reactor",
        "flush_group",
        "left",
        "processor_seconds",
        "seconds",
        "used_s",
    )

    def __init__(self, reactor: TimeSource, flush_group: FlushGroup) -> None:
        self.flush_group = flush_group
        self.seconds: Callable[[], float] = reactor.seconds
        # A clock of tests has no other time than its own.
        self.processor_seconds: Callable[[], float] = getattr(reactor, "processor_seconds", reactor.seconds)
        """Seconds of the processor that this thread took."""
        self.used_s = 0.0
        """Seconds of this turn that requests took. Those of earlier turns count too, up to half a turn."""
        self.left = 0
        """Closed connections in the line."""
        self._reactor = reactor
        self._is_ordered = False
        self._quick: FairLine[InLine] = FairLine()
        self._others: FairLine[InLine] = FairLine()

    def spend(self, began_s: float) -> float:
        """Return the seconds since ``began_s``; they are taken from this turn."""
        took_s = self.seconds() - began_s
        self.used_s += took_s
        if self.used_s >= TURN_S / 2:  # a timer for each turn would cost more than most turns
            self._order()
        return took_s

    def wait(self, one: InLine, host: str, is_quick: bool, cost_s: float) -> None:
        """Let a connection, which does not wait yet, go on in a later turn.

        :param cost_s: seconds that it is expected to take then.
        """
        line = self._quick if is_quick else self._others
        line.put(host, id(one), one, cost_s)
        self._order()

    def finish(self) -> None:
        """Let everyone who waits go on now: the server stops."""
        while self._quick or self._others:
            self.used_s = 0.0
            self._go_on(self._quick or self._others)

    def _order(self) -> None:
        if not self._is_ordered:
            self._is_ordered = True
            self._reactor.callLater(0, self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_ordered = False
        self.used_s = 0.0
        try:
            self.flush_group.flush()  # what is gathered is written first, or its peers would seem not to read
            self._serve(self._quick, 0)
            self._serve(self._others, 1)
        finally:  # an error ends this turn, and nothing else
            if self._quick or self._others:
                self._order()

    def _serve(self, line: FairLine[InLine], least: int) -> None:
        """Have as many go on as wait already, ``least`` of them even when the turn is over."""
        for number in range(len(line)):
            if not line or (number >= least and self.used_s >= TURN_S):
                break
            self._go_on(line)

    def _go_on(self, line: FairLine[InLine]) -> None:
        one = line.take()
        try:
            one.go_on()
        except Exception as error:  # noqa: BLE001 - as with Twisted, it costs its connection only
            log.error("input failed", failure=error)
            one.drop("its input failed")
