"""Twisted's epoll reactor with a shorter way from the system to a connection that has something to read.

For every event Twisted sets up a logging context for the system's name and asks anew what kind of event it is; for
plain connections, which are told of little else than bytes to read, that costs as much as reading them. What a
failure does is the same: it is logged, and ends the connection. Its time is what really passes: Twisted's is the time
of day, and a machine's clock that is set back by an hour would keep everything waiting for an hour. A thread that has
something for it writes to the waker's pipe only when the reactor waits.
"""

from __future__ import annotations

import errno
import time
from select import EPOLLIN
from typing import Any, Final

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.tcp import Server
from twisted.python import log

_READABLE: Final = int(EPOLLIN)


class QuickEpollReactor(EPollReactor):
    """What a server needs quicker; everything else is Twisted's."""

    _is_waiting = False
    _is_woken = False

    def seconds(self) -> float:
        """Of a clock that never jumps; for differences only."""
        return time.monotonic()

    def wakeUp(self) -> None:  # noqa: N802 (Twisted's name)
        """Do not wait, or no longer; for any thread."""
        self._is_woken = True
        if self._is_waiting:
            super().wakeUp()

    def doPoll(self, timeout: float | None) -> None:  # noqa: N802 (Twisted's name)
        """Wait for events once, and have each carried out."""
        selectables: dict[int, Any] = self._selectables
        self._is_waiting = True  # before it looks whether it was woken: who comes in between uses the pipe
        if self._is_woken:
            timeout = 0
        try:
            events = self._poller.poll(-1 if timeout is None else timeout, len(selectables))
        except OSError as error:
            if error.errno == errno.EINTR:
                return
            raise
        finally:
            self._is_waiting = self._is_woken = False
        for fd, event in events:
            selectable = selectables.get(fd)
            if selectable is None:
                continue  # closed by one of the others
            if event == _READABLE and type(selectable) is Server and selectable.connected:
                self._read(selectable)
            elif selectable is self.waker:
                selectable.doRead()
            else:
                log.callWithLogger(  # type: ignore[no-untyped-call]
                    selectable, self._doReadOrWrite, selectable, fd, event
                )

    doIteration = doPoll  # noqa: N815 (Twisted's name)

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
