"""A port with pages on a memory reactor, and peers that ask there."""

from __future__ import annotations

import re
from collections.abc import Callable

from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock

from gateway.broker.pages.answers import Page
from gateway.broker.pages.port import PagePort
from gateway.in_thread import in_this_thread
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.input import IncompleteFrames
from gateway.remoting.input_turn import InputTurn
from gateway.remoting.tls.first_byte import FirstByte, renewed_identity
from gateway.settings import RemotingSettings
from gateway.tests.remoting.conversation import TURN_SECONDS, MemoryTransport, TurnReactor

ROOM_BYTES = 1 << 20
_STATUS = re.compile(rb"HTTP/1\.[01] (\d+) [^\r]+\r\nDate: ")


class HttpTransport(MemoryTransport):
    """Takes as many bytes as ``takes`` before it tells the writer to stop."""

    def __init__(self, host: str, takes: int) -> None:
        super().__init__(peer=IPv4Address("TCP", host, 40_000))
        self.takes = takes
        self.is_half_closed = False

    def write(self, data: bytes) -> None:
        """Keep what is written."""
        super().write(data)
        if sum(map(len, self.writes)) > self.takes:
            self.full()

    def loseWriteConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """The writer has nothing more."""
        self.is_half_closed = True


class Asker:
    """One peer."""

    def __init__(self, port: PagePort, host: str, takes: int) -> None:
        self.transport = HttpTransport(host, takes)
        protocol = port.buildProtocol(None)
        self.transport.protocol = protocol  # type: ignore[assignment]
        self._protocol = protocol
        protocol.makeConnection(self.transport)  # type: ignore[no-untyped-call]

    def send(self, data: bytes) -> None:
        """Let bytes arrive in one read."""
        self._protocol.dataReceived(data)

    def ask(self, path: str = "/healthz", version: str = "1.1") -> None:
        """Give the port the bytes of a GET request."""
        self.send(f"GET {path} HTTP/{version}\r\n\r\n".encode())

    @property
    def received(self) -> bytes:
        """All that was written to this peer."""
        return b"".join(self.transport.writes)

    @property
    def answers(self) -> int:
        """Return how many answers these bytes are."""
        return len(_STATUS.findall(self.received))

    @property
    def status(self) -> int:
        """The code of the last answer."""
        return int(_STATUS.findall(self.received)[-1])

    @property
    def is_connected(self) -> bool:
        """Return whether the connection is open."""
        return bool(self.transport.connected)


def first_byte(reactor: MemoryReactorClock, settings: RemotingSettings) -> FirstByte:
    """What decides whether a connection is encrypted."""
    turn = InputTurn(reactor, FlushGroup(reactor))
    renewal = renewed_identity(settings, reactor, in_this_thread)
    return FirstByte(settings, reactor, turn, IncompleteFrames(1 << 28), renewal)


class Served:
    """A port with these pages, and its time."""

    def __init__(self, room_bytes: int = ROOM_BYTES, settings: RemotingSettings | None = None, **pages: Page) -> None:
        self.reactor = TurnReactor()  # type: ignore[no-untyped-call]
        self.room = AnswerRoom(self.reactor, FlushGroup(self.reactor), room_bytes)
        self.first_byte = first_byte(self.reactor, settings or RemotingSettings())
        self.port = PagePort(
            {f"/{name}": page for name, page in pages.items()},
            self.reactor,
            self.room,
            reserved_descriptors=16,
            first_byte=self.first_byte,
        )

    def asker(self, host: str = "192.0.2.1", takes: int = 1 << 30) -> Asker:
        """A peer that has connected."""
        return Asker(self.port, host, takes)

    def turn(self) -> None:
        """Let one turn of the reactor pass: what is asked for now is for the next one."""
        self.reactor.advance(TURN_SECONDS)

    def turns_until(self, is_done: Callable[[], bool]) -> int:
        """Let turns of the reactor pass, and return how many."""
        for turn in range(10_000):
            if is_done():
                return turn
            self.turn()
        raise AssertionError("not done after 10,000 turns")
