"""Twisted's epoll reactor with a shorter way from the system to a connection that has something to read.

For every event Twisted sets up a logging context for the system's name and asks anew what kind of event it is; for
plain connections, which are told of little else than bytes to read, that costs as much as reading them. What a
failure does is the same: it is logged, and ends the connection. Its time is what really passes: Twisted's is the time
of day, and a machine's clock that is set back by an hour would keep everything waiting for an hour.

A thread that has something for it rings a bell, and only when the reactor waits: one write that nobody has to read. Of
Twisted's pipe the reactor reads what a thread wrote, and with each of the two the threads may take turns.
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
from twisted.internet.tcp import Port, Server
from twisted.python import log

from gateway.reactor.deputy import Deputy
from gateway.reactor.interface import QuickReactor

EXPECTED_WITHIN_S: Final = 0.001
"""For so long at most connections are left alone for a call that is expected: what came meanwhile is read together."""

_LONGEST_S: Final = 3600.0
"""No timer of a server lies further ahead; Twisted knows how long epoll can wait at most."""
_READABLE: Final = int(EPOLLIN)
MOST_ACCEPTS: Final = 16
"""Connections that a port accepts in one turn. Twisted accepts 20 more in each turn while more wait. Those that take
descriptors kept for files are closed with the next turn only, so a flood would have all of them; and each takes 0.1 ms.
"""


class QuickPort(Port):
    """A listening port that accepts few connections in a turn."""

    def doRead(self) -> None:  # noqa: N802 (Twisted's name)
        """Accept what has arrived, as far as one turn goes."""
        self.numberAccepts = min(self.numberAccepts, MOST_ACCEPTS)
        super().doRead()  # type: ignore[no-untyped-call]


class QuickEpollReactor(EPollReactor, QuickReactor):
    """What a server needs quicker; everything else is Twisted's."""

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
    """Of a clock that never jumps; for differences only. The function itself: every read asks for the time twice."""
    processor_seconds = staticmethod(time.thread_time)
    """The processor's time that this thread took: what other threads compute meanwhile does not count."""

    def wakeUp(self) -> None:  # noqa: N802 (Twisted's name)
        """Do not wait, or no longer; for any thread."""
        self._is_woken = True
        if self._is_waiting:
            os.eventfd_write(self._bell, 1)

    def expect_call(self, expected: bool) -> None:
        """Whether a thread will call within moments: when there is nothing to do until then, sleep for that alone.

        Those who wait for the disk send more meanwhile, one by one; read one by one, each would wake the server.
        """
        self._expects_call = expected

    def wait_for(self, work: Callable[[], Any], outcome: Callable[[Any], None]) -> None:
        """Do ``work``, which must not raise, on this thread at the beginning of the next turn, then ``outcome``.

        It waits for a quick disk. When that is slow for once, a deputy runs the reactor meanwhile.
        """
        self._waited_for.append((work, outcome))

    def mainLoop(self) -> None:  # noqa: N802 (Twisted's name)
        """Go round until the reactor is stopped."""
        while self._turn():
            continue

    def _turn(self, is_deputy: bool = False) -> bool:
        """Go round once: waits, what threads asked for, timers, connections; False when the reactor was stopped.

        The deputy begins no wait: it goes round during one, and would wait for itself.
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
        """Do what is due, and say when the next timer is. In most turns neither a call of a thread nor a timer is new
        or due; Twisted would look for both twice, and twice at the clock.
        """
        timers = self._pendingTimedCalls
        if timers and not (self.threadCallQueue or self._newTimedCalls or self._justStopped):
            delay_s: float = timers[0].time - time.monotonic()
            if 0 < delay_s < _LONGEST_S:
                return delay_s
        self.runUntilCurrent()
        return self.timeout()

    def doPoll(self, timeout: float | None) -> None:  # noqa: N802 (Twisted's name)
        """Wait for events once, and have each carried out."""
        selectables: dict[int, Any] = self._selectables
        for fd, event in self._events(timeout, len(selectables) + 1):
            selectable = selectables.get(fd)
            if selectable is None:
                if fd == self._calls_only.fileno():
                    self._calls_only.poll(0, 1)  # the bell has been heard
                continue  # or closed by one of the others
            if event == _READABLE and type(selectable) is Server and selectable.connected:
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

    def _read(self, connection: Server) -> None:
        """What ``doRead`` does, in one step."""
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
