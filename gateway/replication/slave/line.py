"""The connection to a master: stretches of its log come in, reports of the durable end go out.

connected → (greeting → answer → logs compared) → first report → stretches, signs of life ⇄ reports
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from gateway.remoting.tls.makers import LinkMaker
from gateway.replication.at_once import write_at_once
from gateway.replication.sealed import SealedLine
from gateway.replication.slave.intake import Intake
from gateway.replication.slave.talk import Heard, MasterTalk
from wire.errors import FrameError
from wire.replication.auto_switch import LogPart, MasterAnswer
from wire.replication.classic import Stretch


class LineOwner(Protocol):
    """The receiver, as its connection sees it."""

    def opened(self, line: MasterLine) -> None:
        """Note that the connection is made."""

    def heard(self) -> None:
        """Note that the master sent its first bytes after the first report."""

    def answered(self, line: MasterLine, answer: MasterAnswer) -> None:
        """Compare both logs: ``line.begin`` or ``line.close`` follows."""

    def took(self, line: MasterLine, part: LogPart) -> bool:
        """Take what a part says beside its bytes; return False if ``line.resume`` follows, after a wait."""

    def closed(self, reason: str) -> None:
        """Note that the connection is closed."""

    def report_end(self) -> int:
        """Return the durable end of the log; 0 if it has no record."""

    def seconds(self) -> float:
        """Return seconds that never run backwards."""


class MasterLine(TwistedProtocol):
    """A slave's connection to its master.

    :param talk: makes and reads the messages of the protocol.
    :param seal: makes the slave's side of TLS; None: the connection is not encrypted.
    :param entry: the bytes to send before the protocol begins.
    :param make_intake: makes the object that stores the received parts of the log. Its arguments are two functions: one
        to call after parts were stored, and one to call after a failure.
    """

    def __init__(
        self,
        owner: LineOwner,
        talk: MasterTalk,
        make_intake: Callable[[Callable[[], None], Callable[[str], None]], Intake],
        seal: LinkMaker | None = None,
        entry: bytes = b"",
    ) -> None:
        self._owner = owner
        self._talk = talk
        self._seal = seal
        self._entry = entry
        self._sealed: SealedLine | None = None
        self._arrived: deque[Heard] = deque()
        self._waits = False
        self._reports = False
        self._reason = ""
        self._is_paused = False
        self.intake = make_intake(self._stored, self.close)
        self.is_closed = False
        self.heard_at_s = self.reported_at_s = 0.0
        self._reported_end = 0
        self._has_heard = False

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's name)
        """Greet, or report at once: the master sends nothing before; with TLS after the handshake."""
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        self.heard_at_s = self.reported_at_s = self._owner.seconds()
        self._owner.opened(self)
        if self.is_closed:
            return
        if self._seal is None:
            self._greet()
            return
        self._sealed = SealedLine(self)
        link = self._seal(transport, self._sealed, self.received)
        if link is None:
            self.close("the master speaks TLS and this broker does not (tls.enable)")
            return
        self.dataReceived = link.received  # type: ignore[method-assign]
        link.begin(self._greet)

    def _greet(self) -> None:
        transport: Any = self.transport
        greeting = self._talk.greeting()
        if self._entry or greeting:
            transport.write(self._entry + greeting)
        if not greeting:
            self.begin()

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Take the bytes of a plain connection."""
        self.received(data)

    def received(self, data: bytes) -> None:
        """Take the stretches that the bytes complete."""
        if self.is_closed:
            return
        self.heard_at_s = self._owner.seconds()
        if self._reports and not self._has_heard:
            self._has_heard = True
            self._owner.heard()
        try:
            self._arrived += self._talk.receive_data(data)
        except FrameError as error:
            self.close(str(error))
            return
        self._take_arrived()

    def _take_arrived(self) -> None:
        """Take what arrived, in order, as far as nothing has to be waited for; then read on, or do not."""
        while self._arrived and not self._waits and not self.is_closed:
            heard = self._arrived.popleft()
            if isinstance(heard, MasterAnswer):
                self._owner.answered(self, heard)
            elif not self._reports:
                self.close("the master sends its log before it knows where to begin")
            elif isinstance(heard, Stretch):
                self.intake.take(heard)
            elif self._owner.took(self, heard):
                self.intake.take(Stretch(heard.offset, heard.body))
            else:
                self._arrived.appendleft(heard)
                self._waits = True
        self.pause_or_resume()

    def pause_or_resume(self) -> None:
        """Read from the connection only while nothing has to be waited for, and the log takes more."""
        should_pause = self._waits or self.intake.is_full
        if self.is_closed or should_pause == self._is_paused:
            return
        self._is_paused = should_pause
        transport: Any = self.transport
        if should_pause:
            transport.pauseProducing()
        else:
            self.heard_at_s = self._owner.seconds()
            transport.resumeProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """Tell the owner once."""
        self.__dict__.pop("dataReceived", None)  # it may refer to a link, which refers to this line
        self._end(self._reason or reason.getErrorMessage())

    def begin(self) -> None:
        """Report for the first time: the log goes on as a copy of the master's."""
        self._reports = True
        self.report()

    def resume(self) -> None:
        """Take the part that ``LineOwner.took`` did not take, and what came after it."""
        self._waits = False
        self._take_arrived()

    def report(self) -> None:
        """Send the durable end of the log, if the master knows already that this is a copy of its log."""
        if self._reports and not self.is_closed:
            self.reported_at_s, self._reported_end = self._owner.seconds(), self._owner.report_end()
            write_at_once(self.transport, self._talk.report(self._reported_end))

    @property
    def owes_report(self) -> bool:
        """True if more is on the disk than was reported: of records that came at once, the rest may wait to go on."""
        return self._owner.report_end() > self._reported_end

    def close(self, reason: str) -> None:
        """Close the connection at once."""
        if not self.is_closed:
            self._reason = reason
            transport: Any = self.transport
            transport.abortConnection()
            self._end(reason)

    is_full = False
    """Never True: what a slave sends is short, and its master reads it."""

    def lose(self, reason: str) -> None:
        """Close the connection after everything is written."""
        self._reason = reason
        transport: Any = self.transport
        transport.loseConnection()

    @property
    def is_paused(self) -> bool:
        """True while nothing is read from the connection: silence is then no sign of a lost master."""
        return self._is_paused

    def _stored(self) -> None:
        self.report()
        self.pause_or_resume()

    def _end(self, reason: str) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._arrived.clear()
            self.intake.close()
            if self._sealed is not None:
                self._sealed.end()
            self._owner.closed(reason)
