"""One connection of a slave: its reports come in, stretches of the log go out.

    connected → TLS? token? admitted? → (greeting → answer) → first report → log compared?
              → stretches, signs of life ⇄ reports

No byte of the log is sent before the slave's first report was found to fit. One stretch is read at a time, in a thread,
and only while the connection takes more, so a slow slave costs the memory of one stretch. ``talk`` knows the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.in_thread import Failed
from gateway.replication.at_once import write_at_once
from gateway.replication.master.pace import Pace
from gateway.replication.master.talk import SlaveTalk
from gateway.replication.master.verdicts import fault_of_later, plain_host
from gateway.replication.sealed import SealedLine
from wire.errors import FrameError
from wire.replication.entry import EntryReader


class Owner(Protocol):
    """The port, as its connections see it."""

    def opened(self, line: SlaveLine) -> None:
        """Note a new connection, and find out whether it is a slave's: ``line.begin`` or ``line.close`` follows."""

    def reported(self, line: SlaveLine) -> None:
        """Note that a slave has more."""

    def closed(self, line: SlaveLine, reason: str) -> None:
        """Note that a connection is closed."""

    def durable_end(self) -> int:
        """Return the offset up to which the log may be sent."""

    @property
    def most_in_second(self) -> int | None:
        """The number of bytes that a slave gets in a second; None if there is no limit."""

    def receiver(self, line: SlaveLine, first_byte: int) -> Received | None:
        """Return the function that takes every read of a connection; None if the first byte closes it."""

    def entered(self, line: SlaveLine, token: bytes | None) -> str | None:
        """Return why a peer with these first bytes may not copy; None if it may."""

    def read(self, start: int, limit: int | None, done: Callable[[bytes | Failed | None], None]) -> None:
        """Read a stretch of the log in a thread; ``done`` gets None if the log no longer has it.

        :param limit: the most bytes, unless one record is longer; None for the usual number.
        """

    def follow_later(self, seconds: float = 0) -> None:
        """Call ``follow`` of each connection after a while, at the earliest in a moment.

        So the commits of a moment cost slaves one sync of their disk.
        """

    @property
    def hurries(self) -> bool:
        """True if senders wait for slaves."""

    def seconds(self) -> float:
        """Return seconds that never run backwards."""


Received = Callable[[bytes], None]
"""A function that takes the bytes of each read."""


@implementer(IPushProducer)
class SlaveLine(TwistedProtocol):
    """The protocol of one connection."""

    def __init__(self, owner: Owner, talk: SlaveTalk) -> None:
        self._owner = owner
        self._talk = talk
        self._is_admitted = False
        self._is_paused = False
        self._is_reading = False
        self._read_to = 0
        """The end of the log when the last read began."""
        self._sealed: SealedLine | None = None
        self._entry = EntryReader()
        self.has_entered = False
        """True once the peer's first bytes are those of a slave that may copy."""
        self.proven_id: int | None = None
        """The broker id for which the peer's token was given; None if it showed none."""
        self._reason = ""
        self.first: Deferred[int] = Deferred()
        """Fires with the first report, where the copy begins."""
        self.is_closed = False
        self.host = ""
        self.peer = ""
        self.broker_id: int | None = None
        """The id of the slave; None until it is known, and for a host that no name server lists."""
        self.reported_end = 0
        """The last report."""
        self.sent_end = 0
        """The offset after the last byte that was sent."""
        self.sends = False
        """True once the slave's log was found to be the beginning of ours."""
        self._pace = Pace(0.0)
        self.sent_at_s = self.heard_at_s = 0.0

    # -- Twisted --------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's name)
        """Ask the owner whether the peer is a slave."""
        transport: Any = self.transport
        peer = transport.getPeer()
        self.host, self.peer = plain_host(peer.host), f"{plain_host(peer.host)}:{peer.port}"
        self.sent_at_s = self.heard_at_s = self._owner.seconds()
        self._pace = Pace(self.sent_at_s)
        transport.setTcpNoDelay(True)
        transport.registerProducer(self, True)
        self._owner.opened(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Take the first read, whose first byte says whether the slave speaks TLS."""
        received = None if self.is_closed else self._owner.receiver(self, data[0])
        if received is not None:
            self.dataReceived = received  # type: ignore[method-assign, assignment]
            received(data)

    def received(self, data: bytes) -> None:
        """Take the entry, if there is one, and reports; the last one says all that the earlier ones say."""
        if self.is_closed:
            return
        try:
            if not self.has_entered:
                entered = self._entry.receive_data(data)
                if entered is None or not self._enter(entered.token):
                    return
                data = entered.rest
            self.heard_at_s = self._owner.seconds()
            reports = self._talk.receive_data(data)
        except FrameError as error:
            self.close(str(error))
            return
        self._reply()
        if not reports:
            return
        report = reports[-1]
        if not self.first.called:
            self.reported_end = self.sent_end = report
            self.first.callback(report)
            return
        fault = fault_of_later(report, self.reported_end, self.sent_end)
        if fault is not None:
            self.close(fault)
        elif self.sends:
            self.reported_end = report
            self._owner.reported(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """Tell the owner once."""
        self.__dict__.pop("dataReceived", None)  # it may refer to a link, which refers to this line
        self._end(self._reason or reason.getErrorMessage())

    def _enter(self, token: bytes | None) -> bool:
        fault = self._owner.entered(self, token)
        if fault is not None:
            self.close(fault)
            return False
        self.has_entered = True
        return True

    # -- the owner ------------------------------------------------------------------------------------------

    @property
    def claimed_id(self) -> int | None:
        """The broker id that the slave says it has; None if it does not say it."""
        return self._talk.claimed_id

    @property
    def has_news(self) -> bool:
        """True if there is something new to tell the slave, also without bytes."""
        return self._talk.has_news

    def admit(self) -> None:
        """Answer a greeting, now or when it comes: the host may copy."""
        self._is_admitted = True
        self._reply()

    def begin(self, first: int, log_begin: int) -> None:
        """Send the log to a slave whose first report fits."""
        self.sends = True
        self.sent_end = self._talk.start_of(first, log_begin)
        self.follow()

    def pass_on(self, start: int, content: bytes) -> None:
        """Send durable records from ``start`` on, if the slave lacks just these and nothing limits its pace."""
        if self._may_send and self.sent_end == start and self._owner.most_in_second is None:
            self._send(content)

    def follow(self) -> None:
        """Send what the log has and the slave lacks, as far as the connection takes it, or news without bytes."""
        if not self._may_send:
            return
        durable_end = self._owner.durable_end()
        if self.sent_end < durable_end:
            most, now_s = self._owner.most_in_second, self._owner.seconds()
            left = None if most is None else self._pace.left(now_s, most)
            if left == 0:
                self._owner.follow_later(self._pace.wait_s(now_s))
                return
            self._is_reading = True
            self._read_to = durable_end
            self._owner.read(self.sent_end, left, self._read)
        elif self._talk.has_news:
            self.give_sign_of_life()

    def give_sign_of_life(self) -> None:
        """Send a stretch without bytes."""
        if self.sends and not self._is_paused and not self.is_closed:
            self._write(self._talk.sign_of_life(self.sent_end))

    def close(self, reason: str) -> None:
        """Close the connection at once: what it has not taken yet is dropped."""
        if not self.is_closed:
            self._reason = reason
            transport: Any = self.transport
            transport.abortConnection()
            self._end(reason)

    def sealed(self) -> SealedLine:
        """Return this connection as TLS needs it."""
        self._sealed = SealedLine(self)
        return self._sealed

    @property
    def is_full(self) -> bool:
        """True while the connection takes nothing more."""
        return self._is_paused

    def lose(self, reason: str) -> None:
        """Close the connection after everything is written."""
        self._reason = reason
        transport: Any = self.transport
        transport.unregisterProducer()
        transport.loseConnection()

    @property
    def _may_send(self) -> bool:
        return self.sends and not (self._is_paused or self._is_reading or self.is_closed)

    # -- out ------------------------------------------------------------------------------------------------

    def _read(self, result: bytes | Failed | None) -> None:
        self._is_reading = False
        if self.is_closed:
            return
        if isinstance(result, Failed):
            self.close(f"the log cannot be read at {self.sent_end}: {result.error}")
        elif result is None:
            self.close(f"the log no longer has the bytes at {self.sent_end}: empty the slave and copy anew")
        elif result:
            self._send(result)
            if self._owner.most_in_second is not None:
                self._pace.sent(len(result))
            if self._owner.hurries or self.sent_end < self._read_to:
                self.follow()
            else:
                self._owner.follow_later()  # what was stored meanwhile goes with what comes next

    def _send(self, records: bytes) -> None:
        position = 0
        while position < len(records):
            head, count = self._talk.head(self.sent_end, len(records) - position)
            self.sent_end += count
            self._write(head + records[position : position + count])
            position += count

    def _reply(self) -> None:
        if self._is_admitted and not self.is_closed and (reply := self._talk.reply()):
            self._write(reply)

    def _write(self, data: bytes) -> None:
        self.sent_at_s = self._owner.seconds()
        write_at_once(self.transport, data)

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Read nothing more: the connection has not taken yet what was sent."""
        self._is_paused = True

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Go on sending."""
        self._is_paused = False
        self.follow()

    def stopProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Send nothing more: the connection is lost."""
        self._is_paused = True

    def _end(self, reason: str) -> None:
        if not self.is_closed:
            self.is_closed = True
            if self._sealed is not None:
                self._sealed.end()
            self._owner.closed(self, reason)
