"""The time that all connections of a server have in one turn of the reactor, and the lines of waiting connections.

One poll may report a thousand connections, and each may have sent a costly request. A server carries requests out until
they have taken ``TURN_S`` in total; the bytes of all other connections wait in line. The next turn starts with the
waiting connections.

Connections whose requests have been quick for a while have a line of their own. This line comes first, so that quick
connections wait for few costly requests; at least one connection of the other line has its turn in each turn. Both
lines are fair to hosts, and a short read does not wait for long ones: a new client, which is not known to be quick,
does not wait for all slow clients. Handshakes of TLS have a third line, of which one at most goes on in a turn. While
requests come, handshakes take ``HANDSHAKE_SHARE`` of the time at most: a thousand of them may come at once.
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
"""The seconds that requests of all connections take in one turn of the reactor; the last request may exceed them."""
COSTLY_S: Final = TURN_S / 2
"""The processor time in seconds from which a request, or a few requests of one read, is costly."""
HANDSHAKE_S: Final = TURN_S / 20
"""The seconds of a turn after which a handshake waits for a turn of its own; a step of one takes about half of it."""
HANDSHAKE_SHARE: Final = 0.25
"""The share of the time that handshakes take while requests come."""
BEGUN_SHARE: Final = 0.1
"""The cost of the next step of a handshake as a share of the first one's: few bytes, and no signature."""
QUICK_READS: Final = 16
"""The number of quick reads after which a connection is known to be quick; a costly read takes as many back."""
MOST_QUICK_READS: Final = 2 * QUICK_READS
"""The highest count of quick reads; a connection with this count stays quick after one costly request."""
LEAST_COST_S: Final = 0.0001
"""The least seconds that a read is expected to take."""
BYTE_COST_S: Final = 1e-7
"""The seconds that each byte of a read is expected to take: a heartbeat of 400 KB takes 30 ms."""
MAX_LEFT: Final = 100
"""The number of closed connections whose one-way requests wait for a turn; requests of further ones are dropped."""


class InLine(Protocol):
    """A connection that waits for its turn."""

    def go_on(self) -> None:
        """Carry out what waits, for as long as the turn is not over."""

    def drop(self, reason: str) -> None:
        """Close the connection, because continuing failed."""


class InputTurn:
    """The turns of one server or client. A plain class for speed: every read of every connection uses it.

    :param flush_group: writes the answers.
    """

    def __init__(self, reactor: TimeSource, flush_group: FlushGroup) -> None:
        self.flush_group = flush_group
        self.seconds: Callable[[], float] = reactor.seconds
        # The clock of a test has no processor time, so its own time is used.
        self.processor_seconds: Callable[[], float] = getattr(reactor, "processor_seconds", reactor.seconds)
        """A function that returns the processor time of this thread in seconds."""
        self.used_s = 0.0
        """The seconds of this turn that requests have used. Seconds of earlier turns count too, up to half a turn."""
        self.reads = 0
        """The number of reads whose requests were carried out."""
        self.left = 0
        """The number of closed connections in the line."""
        self._reactor = reactor
        self._is_ordered = False
        self._quick: FairLine[InLine] = FairLine()
        self._others: FairLine[InLine] = FairLine()
        self._handshakes: FairLine[InLine] = FairLine()
        self._handshakes_from_s = 0.0
        """The time from which the next handshake goes on although requests came since the last one."""
        self._reads_before = 0
        """The number of reads when a handshake went on last."""
        self._is_handshake_ordered = False

    def spend(self, began_s: float) -> float:
        """Return the seconds since ``began_s``, and subtract them from this turn."""
        took_s = self.seconds() - began_s
        self.used_s += took_s
        self.reads += 1
        if self.used_s >= TURN_S / 2:  # a timer for each turn would cost more than most turns
            self._order()
        return took_s

    def wait(self, one: InLine, host: str, is_quick: bool, cost_s: float) -> None:
        """Put a connection that does not wait yet into a line for a later turn.

        :param cost_s: the seconds that the connection is expected to take in that turn.
        """
        line = self._quick if is_quick else self._others
        line.put(host, id(one), one, cost_s)
        self._order()

    @property
    def has_time_for_handshake(self) -> bool:
        """True if a handshake that does not wait may go on at once."""
        return not self._handshakes and self.used_s < HANDSHAKE_S and self._handshake_wait_s() <= 0

    def wait_for_handshake(self, one: InLine, host: str, is_begun: bool) -> None:
        """Put a connection whose handshake does not wait yet into the line of handshakes.

        :param is_begun: True if the handshake took a step already: it then goes on before those that begin.
        """
        self._handshakes.put(host, id(one), one, HANDSHAKE_S * BEGUN_SHARE if is_begun else HANDSHAKE_S)
        self._order_handshake()

    def spend_on_handshake(self, began_s: float) -> None:
        """Subtract the seconds since ``began_s``, which a step of a handshake took, from this turn."""
        now_s = self.seconds()
        took_s = now_s - began_s
        self.used_s += took_s
        self._reads_before = self.reads
        self._handshakes_from_s = now_s + min(took_s, TURN_S) * (1 / HANDSHAKE_SHARE - 1)

    def _handshake_wait_s(self) -> float:
        """Return the seconds for which handshakes wait, because the last step of one was followed by requests."""
        return 0.0 if self.reads == self._reads_before else self._handshakes_from_s - self.seconds()

    def _order_handshake(self) -> None:
        """Order a turn for the time at which a handshake may go on."""
        if self._is_ordered or self._is_handshake_ordered:
            return
        wait_s = self._handshake_wait_s()
        if wait_s <= 0:
            self._order()
        else:
            self._is_handshake_ordered = True
            self._reactor.callLater(wait_s, self._begin_handshake_turn)

    def _begin_handshake_turn(self) -> None:
        self._is_handshake_ordered = False
        if not self._is_ordered:
            self._begin_turn()

    def finish(self) -> None:
        """Give every waiting connection its turn now, because the server stops."""
        while self._has_waiting():
            self.used_s = 0.0
            self._go_on(self._quick or self._others or self._handshakes)

    def _has_waiting(self) -> bool:
        return bool(self._quick or self._others or self._handshakes)

    def _order(self) -> None:
        if not self._is_ordered:
            self._is_ordered = True
            self._reactor.callLater(0, self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_ordered = False
        self.used_s = 0.0
        try:
            # Gathered answers are written first; otherwise their peers would seem not to read.
            self.flush_group.flush()
            self._serve(self._quick, 0, TURN_S)
            self._serve(self._others, 1, TURN_S)
            if self._handshakes and self._handshake_wait_s() <= 0:
                self._go_on(self._handshakes)
        finally:  # an error ends only this turn
            if self._quick or self._others:
                self._order()
            elif self._handshakes:
                self._order_handshake()

    def _serve(self, line: FairLine[InLine], least: int, until_s: float) -> None:
        """Give each connection that waits now its turn until the time is over; ``least`` of them even after the end."""
        for number in range(len(line)):
            if not line or (number >= least and self.used_s >= until_s):
                break
            self._go_on(line)

    def _go_on(self, line: FairLine[InLine]) -> None:
        one = line.take()
        try:
            one.go_on()
        except Exception as error:  # noqa: BLE001 - as with Twisted, it costs its connection only
            log.error("input failed", failure=error)
            one.drop("its input failed")
