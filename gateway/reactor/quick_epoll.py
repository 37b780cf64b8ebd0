"""Twisted's epoll reactor with a shorter way from the system to a connection that has something to read.

For every event Twisted sets up a logging context for the system's name and asks again what kind of event it is. Most
events of plain connections are bytes to read, and for these the extra work costs as much as the reading. A failure has
the same effect as in Twisted: it is logged and ends the connection. The clock here is monotonic. Twisted uses the time
of day, so everything would wait for an hour if the machine's clock was set back by an hour.

A thread that has a call for the reactor rings a bell, but only while the reactor waits: the bell is one write that
nobody has to read. Twisted uses a pipe instead, and the reactor reads what a thread wrote there; at the write and at
the read the threads may take turns.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from select import EPOLLET, EPOLLIN, epoll
from typing import Any, Final

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.tcp import Client, Port, Server
from twisted.python import log

from gateway.reactor.deputy import Deputy
from gateway.reactor.interface import QuickReactor

EXPECTED_WITHIN_S: Final = 0.001
"""The most seconds that connections wait for an expected call; everything that arrives meanwhile is read at once."""

_LONGEST_S: Final = 3600.0
"""Seconds beyond any timer of a server; longer times go through Twisted's code, which knows the limit of epoll."""
_READABLE: Final = int(EPOLLIN)
_READ_AT_ONCE: Final = (Server, Client)
"""The kinds of connections that are read without Twisted's extra work: accepted ones, and those made from here."""
MOST_ACCEPTS: Final = 16
"""The number of connections that a port accepts in one turn.

While more connections wait, Twisted accepts 20 more in each turn. Connections that take descriptors kept for files are
closed only in the next turn, so a flood would use all descriptors. Each accept also takes 0.1 ms.
"""


class QuickPort(Port):
    """A listening port that accepts only ``MOST_ACCEPTS`` connections in a turn."""

    def doRead(self) -> None:  # noqa: N802 (Twisted's name)
        """Accept waiting connections, up to the limit of one turn."""
        self.numberAccepts = min(self.numberAccepts, MOST_ACCEPTS)
        super().doRead()  # type: ignore[no-untyped-call]


class QuickEpollReactor(EPollReactor, QuickReactor):
    """The parts of Twisted's reactor that a server needs quicker; everything else is Twisted's."""

    _is_waiting = False
    _is_woken = False
    _expects_call = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._calls_only = epoll()
        self._calls_only.register(self._bell, EPOLLIN | EPOLLET)  # nobody reads it: it takes 2^64 rings to fill
        self._poller.register(self._calls_only, EPOLLIN)
        self._waited_for: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._deputy = Deputy(partial(self._turn, is_deputy=True), self.wakeUp)

    def listenTCP(  # noqa: N802 (Twisted's name)
        self, port: int, factory: Any, backlog: int = 50, interface: str = ""
    ) -> QuickPort:
        """Listen on a port of this machine."""
        listening = QuickPort(port, factory, backlog, interface, self)
        listening.startListening()
        return listening

    seconds = staticmethod(time.monotonic)
    """The seconds of a clock that never jumps; use them only for differences.

    The attribute is the function itself, because every read asks for the time twice.
    """
    processor_seconds = staticmethod(time.thread_time)
    """The processor time of this thread in seconds; what other threads compute meanwhile does not count."""

    def wakeUp(self) -> None:  # noqa: N802 (Twisted's name)
        """End the present wait, or skip the next one; any thread may call this."""
        self._is_woken = True
        if self._is_waiting:
            os.eventfd_write(self._bell, 1)

    def expect_call(self, expected: bool) -> None:
        """Say whether another thread will call within moments. An idle reactor then waits for that call only.

        While some senders wait for the disk, others send one by one. If each message was read at once, each would wake
        the server.
        """
        self._expects_call = expected

    def wait_for(self, work: Callable[[], Any], outcome: Callable[[Any], None]) -> None:
        """At the start of the next turn, call ``work`` on this thread, and then ``outcome`` with its result.

        ``work`` waits for the disk and must not raise. Most waits are short. During a long wait a second thread, the
        deputy, runs the reactor.
        """
        self._waited_for.append((work, outcome))

    def mainLoop(self) -> None:  # noqa: N802 (Twisted's name)
        """Run turns until the reactor is stopped."""
        while self._turn():
            continue

    def _turn(self, is_deputy: bool = False) -> bool:
        """Run one turn: waits for the disk, calls of threads, timers, connections.

        The deputy starts no wait for the disk: it runs during such a wait, and would wait for itself.

        :return: False if the reactor was stopped.
        """
        try:
            if self._waited_for and not is_deputy:
                work, outcome = self._waited_for.popleft()
                outcome(self._deputy.wait_for(work))
            delay_s = self._delay_s()
            self.doIteration(delay_s if self.running and (is_deputy or not self._waited_for) else 0)
        except BaseException:  # noqa: BLE001 - as Twisted's main loop, whatever a turn raises
            log.err()  # type: ignore[no-untyped-call]
        return bool(self._started)

    def _delay_s(self) -> float | None:
        """Do what is due, and return the seconds until the next timer; None if there is no timer.

        In most turns no call of a thread and no timer is new or due. Twisted would check both twice, and read the clock
        twice.
        """
        timers = self._pendingTimedCalls
        if timers and not (self.threadCallQueue or self._newTimedCalls or self._justStopped):
            delay_s: float = timers[0].time - time.monotonic()
            if 0 < delay_s < _LONGEST_S:
                return delay_s
        self.runUntilCurrent()
        return self.timeout()

    def doPoll(self, timeout: float | None) -> None:  # noqa: N802 (Twisted's name)
        """Wait for events once, and handle each of them."""
        selectables: dict[int, Any] = self._selectables
        for fd, event in self._events(timeout, len(selectables) + 1):
            selectable = selectables.get(fd)
            if selectable is None:
                if fd == self._calls_only.fileno():
                    self._calls_only.poll(0, 1)  # the bell has been heard
                continue  # or closed by one of the others
            if event == _READABLE and type(selectable) in _READ_AT_ONCE and selectable.connected:
                self._read(selectable)
            elif selectable is self.waker:
                selectable.doRead()
            else:
                log.callWithLogger(  # type: ignore[no-untyped-call]
                    selectable, self._doReadOrWrite, selectable, fd, event
                )

    doIteration = doPoll  # type: ignore[assignment]  # noqa: N815 (Twisted's name; it calls the time delay)

    def _events(self, timeout: float | None, most: int) -> list[tuple[int, int]]:
        self._is_waiting = True  # before it looks whether it was woken: who comes in between rings
        if self._is_woken:
            timeout = 0
        try:
            if self._expects_call and timeout != 0:
                within_s = EXPECTED_WITHIN_S if timeout is None else min(timeout, EXPECTED_WITHIN_S)
                self._expects_call = False  # once: whatever ends it, the next wait is for everything
                return self._calls_only.poll(within_s, 1)
            return self._poller.poll(-1 if timeout is None else timeout, most)  # type: ignore[no-any-return]
        except OSError as error:
            if error.errno == errno.EINTR:
                return []
            raise
        finally:
            self._is_waiting = self._is_woken = False

    def _read(self, connection: Server | Client) -> None:
        """Do in one step what Twisted's ``doRead`` does."""
        why: BaseException | None = None
        try:
            data = connection.socket.recv(connection.bufferSize)
        except BlockingIOError:
            return
        except OSError:
            why = CONNECTION_LOST
        else:
            if data:
                try:
                    connection.protocol.dataReceived(data)
                except BaseException as error:  # noqa: BLE001 - as Twisted: it costs its connection only
                    why = error
                    log.err()  # type: ignore[no-untyped-call]
            else:
                why = CONNECTION_DONE
        if why:
            self._disconnectSelectable(connection, why, True)  # type: ignore[no-untyped-call]
