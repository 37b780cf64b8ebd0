"""One HTTP connection to the pages: the peer takes one answer before the next request is read.

The connection keeps only the head of one request, with the bytes that arrived at the same time as its end. Each step
has a time limit: a peer that is slow to ask, or to take its answer, is cut off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Protocol

from twisted.internet.interfaces import IDelayedCall, ITransport
from twisted.internet.protocol import Protocol as Connection
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from gateway.broker.pages.answers import Answered, PageAnswer, text_answer
from gateway.broker.pages.head import HEAD_END, LINE_END, MAX_HEAD_BYTES, PageRefused, PageRequest, parse_head
from gateway.reactor.interface import TimeSource
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.output import GONE, NO_OUTPUT, Output, output_for, send_without_delay
from gateway.remoting.tls.first_byte import FirstByte
from gateway.telemetry.logs import EventLog

log = EventLog("pages")

HEAD_SECONDS = 10
"""Seconds from the start of a connection, or from a later request's first byte, to the end of the request's head."""
IDLE_SECONDS = 75
"""Seconds that a connection may stay open between two requests; monitors ask once a minute."""
TAKE_SECONDS = 30
"""Seconds that a peer has to take its answer."""
LINGER_SECONDS = 1
"""Seconds for which the broker goes on reading after a refusal, so that the refusal reaches the peer."""
LINGER_BYTES = 262_144
"""The number of bytes that are read and thrown away after a refusal."""


class ConnectionOwner(Protocol):
    """The port of a connection."""

    @property
    def reactor(self) -> TimeSource:
        """The source of time."""

    @property
    def room(self) -> AnswerRoom:
        """The room in which bytes count that peers have not taken."""

    @property
    def first_byte(self) -> FirstByte:
        """Decides whether a connection is encrypted."""

    def opened(self, connection: PageConnection) -> None:
        """Note a new connection; if there are too many connections, one of them is cut off."""

    def closed(self, connection: PageConnection) -> None:
        """Forget a closed connection."""

    def ask(self, path: str, answered: Answered) -> None:
        """Call back with the answer for a path, now or in a later turn."""


class _Doing(Enum):
    IDLE = auto()
    """The connection waits for the first byte of the next head."""
    READING = auto()
    """The connection reads a head."""
    WAITING = auto()
    """The answer is made, or the next head has arrived and waits for the next turn."""
    WRITING = auto()
    """The peer takes its answer."""
    ENDING = auto()
    """The request was refused: bytes that the peer still sends are thrown away."""
    GONE = auto()


class PageConnection(Connection):
    """One connection; ``host`` is the address of its peer."""

    def __init__(self, owner: ConnectionOwner) -> None:
        self.host = ""
        self._owner = owner
        self._doing = _Doing.READING
        self._request: PageRequest | None = None
        self._received = b""
        self._thrown_away = 0
        self._is_paused = False
        self._output: Output = NO_OUTPUT
        self._timer: IDelayedCall | None = None
        self._next: IDelayedCall | None = None
        self._when_closed: list[Callable[[object], None]] = []

    # --- what Twisted tells --------------------------------------------------------------------------------------

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's name)
        """Read the first head."""
        transport: Any = self.transport
        self.host = str(getattr(transport.getPeer(), "host", ""))
        send_without_delay(transport)
        self._output = output_for(transport, self._taken)
        self._within(HEAD_SECONDS)
        self._owner.opened(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Take the first read; where the later ones go is decided by the first byte."""
        transport: Any = self.transport
        received = self._owner.first_byte.receiver(data, self, self.received, transport, is_page=True)
        self.dataReceived = received  # type: ignore[method-assign, assignment]
        received(data)

    def received(self, data: bytes) -> None:
        """Read on; after a refusal throw the bytes away."""
        if self._doing is _Doing.ENDING:
            self._thrown_away += len(data)
            if self._thrown_away > LINGER_BYTES:
                self._pause()
            return
        if self._doing is _Doing.IDLE:
            self._doing = _Doing.READING
            self._within(HEAD_SECONDS)
        self._received = (self._received + data).lstrip(LINE_END)  # empty lines may stand before a request
        if self._doing is _Doing.READING:
            self._answer_next()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """Release everything, because transport, output and connection refer to each other."""
        del reason
        self._doing = _Doing.GONE
        for call in (self._timer, self._next):
            if call is not None and call.active():
                call.cancel()
        self._timer = self._next = None
        self._received = b""
        self._owner.room.holds(self, 0)
        self._output.end()
        self._output = NO_OUTPUT
        self.transport = GONE
        self._owner.closed(self)
        self._tell_closed()

    # --- as a holder of bytes that a peer has not taken ----------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Always True: no further answer is made before the peer has taken the present one."""
        return True

    @property
    def untaken_bytes(self) -> int:
        """The number of bytes that the peer has not taken yet (``Output.untaken_bytes``)."""
        return self._output.untaken_bytes()

    def drop(self, reason: str) -> None:
        """Close the connection at once."""
        if self._doing is not _Doing.GONE:
            self._doing = _Doing.GONE
            log.info("connection to the pages closed", remote=self.host, reason=reason)
            self._owner.room.holds(self, 0)
            transport: Any = self.transport
            getattr(transport, "abortConnection", transport.loseConnection)()
            self._tell_closed()

    # --- as a connection that may be encrypted -------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True once the connection is closed."""
        return self._doing is _Doing.GONE

    @property
    def remote(self) -> tuple[str, int]:
        """The peer's address; the port is not known."""
        return self.host, 0

    @property
    def remote_text(self) -> str:
        """The peer as log lines name it."""
        return self.host

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the kernel has not taken yet."""
        return self._output.unsent_bytes

    def encrypt(self, transport: ITransport) -> None:
        """Write through a transport that encrypts."""
        self._output.release()
        self.transport = transport
        self._output = output_for(transport, self._taken)

    def write_own(self, data: bytes) -> None:
        """Write bytes of the encryption itself."""
        self._output.write_own(data)

    def on_close(self, callback: Callable[[object], None]) -> None:
        """Call back once when the connection closes."""
        self._when_closed.append(callback)

    def close(self, reason: str, *, is_logged: bool = False) -> None:
        """Close after everything is written."""
        if not is_logged:
            log.info("connection to the pages closed", remote=self.host, reason=reason)
        transport: Any = self.transport
        transport.loseConnection()

    def _tell_closed(self) -> None:
        callbacks, self._when_closed = self._when_closed, []
        for callback in callbacks:
            callback(self)

    # --- a request and its answer --------------------------------------------------------------------------------

    def _answer_next(self) -> None:
        end = self._received.find(HEAD_END, 0, MAX_HEAD_BYTES)
        if end < 0:
            if len(self._received) >= MAX_HEAD_BYTES:
                what = f"the head of a request has {MAX_HEAD_BYTES} bytes at most"
                self._refuse(PageRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, what))
            else:
                self._read_on(_Doing.READING)
            return
        head, self._received = self._received[:end], self._received[end + len(HEAD_END) :].lstrip(LINE_END)
        try:
            self._request = parse_head(head)
        except PageRefused as refused:
            self._refuse(refused)
            return
        self._doing = _Doing.WAITING
        self._pause()
        self._within(TAKE_SECONDS)
        self._owner.ask(self._request.path, self._answered)

    def _read_on(self, doing: _Doing) -> None:
        self._doing = doing
        if self._is_paused:
            self._is_paused = False
            transport: Any = self.transport
            transport.resumeProducing()

    def _answered(self, answer: PageAnswer) -> None:
        request = self._request
        if self._doing is not _Doing.WAITING or request is None:
            return
        head = _answer_head(request.version, answer, is_last=request.is_last)
        self._write(head if request.is_head else head + answer.body)

    def _refuse(self, refused: PageRefused) -> None:
        self._request = None
        self._received = b""
        answer = text_answer(refused.status, str(refused))
        self._write(_answer_head("HTTP/1.1", answer, is_last=True) + answer.body)

    def _write(self, data: bytes) -> None:
        self._doing = _Doing.WRITING
        self._output.write(data)
        if self._output.blocked:
            self._pause()
            self._within(TAKE_SECONDS)
            self._owner.room.holds(self, self._output.unsent_bytes)
        else:
            self._taken()

    def _taken(self) -> None:
        """Read on, or end, once the peer or the system on its behalf has taken the answer."""
        if self._doing is not _Doing.WRITING:
            return
        self._owner.room.holds(self, 0)
        transport: Any = self.transport
        if self._request is None:
            self._within(LINGER_SECONDS)
            self._read_on(_Doing.ENDING)
            getattr(transport, "loseWriteConnection", transport.loseConnection)()
        elif self._request.is_last:
            transport.loseConnection()
        elif self._received:
            # Others have their turns between the requests that one peer sends together.
            self._doing = _Doing.WAITING
            self._within(HEAD_SECONDS)
            self._next = self._owner.reactor.callLater(0, self._answer_next)
        else:
            self._within(IDLE_SECONDS)
            self._read_on(_Doing.IDLE)

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            transport: Any = self.transport
            transport.pauseProducing()

    # --- time ----------------------------------------------------------------------------------------------------

    def _within(self, seconds: float) -> None:
        """Give the peer this many seconds from now on."""
        if self._timer is None:
            self._timer = self._owner.reactor.callLater(seconds, self._late)
        else:
            self._timer.reset(seconds)

    def _late(self) -> None:
        self._timer = None
        self.drop("the peer is too slow")


def _answer_head(version: str, answer: PageAnswer, *, is_last: bool) -> bytes:
    lines = [
        f"{version} {answer.status.value} {answer.status.phrase}",
        time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        f"Connection: {'close' if is_last else 'keep-alive'}",
    ]
    if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    return "\r\n".join([*lines, "", ""]).encode()
