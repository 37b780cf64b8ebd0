"""The connection to a master: stretches of its log come in, reports of the durable end go out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from gateway.replication.slave.intake import Intake
from wire.errors import FrameError
from wire.replication import StretchReader, build_report


class LineOwner(Protocol):
    """The receiver, as its connection sees it."""

    def opened(self, line: MasterLine) -> None:
        """Note that the connection is made."""

    def heard(self) -> None:
        """Note that the master sent its first bytes."""

    def closed(self, reason: str) -> None:
        """Note that the connection is closed."""

    def report_end(self) -> int:
        """Return the durable end of the log; 0 if it has no record."""

    def seconds(self) -> float:
        """Return seconds that never run backwards."""


class MasterLine(TwistedProtocol):
    """The protocol of one connection.

    :param make_intake: makes the place where stretches go, from the functions to call when it stored some or failed.
    """

    def __init__(
        self, owner: LineOwner, make_intake: Callable[[Callable[[], None], Callable[[str], None]], Intake]
    ) -> None:
        self._owner = owner
        self._stretches = StretchReader()
        self._reason = ""
        self._is_paused = False
        self.intake = make_intake(self._stored, self.close)
        self.is_closed = False
        self.heard_at_s = self.reported_at_s = 0.0
        self._has_heard = False

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's name)
        """Report at once: the master sends nothing before."""
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        self.heard_at_s = self._owner.seconds()
        self._owner.opened(self)
        self.report()

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Take the stretches that the bytes complete."""
        if self.is_closed:
            return
        self.heard_at_s = self._owner.seconds()
        if not self._has_heard:
            self._has_heard = True
            self._owner.heard()
        try:
            stretches = self._stretches.receive_data(data)
        except FrameError as error:
            self.close(str(error))
            return
        for stretch in stretches:
            if self.is_closed:
                return
            self.intake.take(stretch)
        if self.intake.is_full and not self.is_closed:
            self._is_paused = True
            transport: Any = self.transport
            transport.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """Tell the owner once."""
        self._end(self._reason or reason.getErrorMessage())

    def report(self) -> None:
        """Send the durable end of the log."""
        if not self.is_closed:
            transport: Any = self.transport
            self.reported_at_s = self._owner.seconds()
            transport.write(build_report(self._owner.report_end()))

    def close(self, reason: str) -> None:
        """Close the connection at once."""
        if not self.is_closed:
            self._reason = reason
            transport: Any = self.transport
            transport.abortConnection()
            self._end(reason)

    @property
    def is_paused(self) -> bool:
        """True while nothing is read from the connection: silence is then no sign of a lost master."""
        return self._is_paused

    def _stored(self) -> None:
        self.report()
        if self._is_paused and not self.intake.is_full and not self.is_closed:
            self._is_paused = False
            self.heard_at_s = self._owner.seconds()
            transport: Any = self.transport
            transport.resumeProducing()

    def _end(self, reason: str) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.intake.close()
            self._owner.closed(reason)
