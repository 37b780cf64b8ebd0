"""A server on a memory reactor, and peers that talk to it: tests read as what is sent and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import ensureDeferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from gateway.remoting.channel import Channel
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.protocol import RemotingProtocol
from gateway.remoting.server import RemotingServer
from gateway.settings import RemotingSettings
from wire.codes import RequestCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.headers.declare import Header, build_header

SETTINGS = RemotingSettings()
SERVER_HOST = "10.0.0.1"
TURN_SECONDS = 1e-9


def memory_reactor() -> MemoryReactorClock:
    """A reactor without sockets, whose time is moved by hand."""
    return MemoryReactorClock()  # type: ignore[no-untyped-call]


class TurnReactor(MemoryReactorClock):
    """A reactor that runs a call without delay in the next turn, as a real reactor does."""

    def callLater(  # noqa: N802 (Twisted's name)
        self,
        delay: float,
        callable: Callable[..., object],  # noqa: A002 (Twisted's name)
        *args: object,
        **kw: object,
    ) -> IDelayedCall:
        """Implement ``TimeSource``."""
        return super().callLater(max(delay, TURN_SECONDS), callable, *args, **kw)


def failure_of(error: Exception) -> Failure:
    """Return the failure object that Twisted uses for an exception."""
    return Failure(error)  # type: ignore[no-untyped-call]


class MemoryTransport(StringTransport):
    """Keeps what is written, and tells the protocol when it is closed, as a real transport does."""

    protocol: RemotingProtocol | None = None

    def __init__(self, host: object = None, peer: object = None) -> None:
        super().__init__(host, peer)  # type: ignore[no-untyped-call]
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep what is written."""
        self.writes.append(data)

    def full(self) -> None:
        """Tell the writer to stop, as a real transport does when its peer does not read."""
        assert self.producer is not None
        self.producer.pauseProducing()

    def empty(self) -> None:
        """Tell the writer to go on."""
        assert self.producer is not None
        self.producer.resumeProducing()

    def loseConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """Close; the protocol hears it at once."""
        if self.connected:
            self.connected = False
            if self.protocol is not None:
                self.protocol.connectionLost(failure_of(ConnectionDone("closed")))

    def abortConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """Close without flushing."""
        self.disconnected = True
        self.loseConnection()

    @property
    def reads(self) -> bool:
        """Return whether the other side is read."""
        return bool(self.producerState == "producing")


class Peer:
    """The far end of one connection."""

    def __init__(self, protocol: RemotingProtocol, remote: tuple[str, int], local: tuple[str, int]) -> None:
        self.protocol = protocol
        self.transport = MemoryTransport(IPv4Address("TCP", *local), IPv4Address("TCP", *remote))
        self.transport.protocol = protocol
        self._connection = Connection()
        self._last_opaque = 100
        protocol.makeConnection(self.transport)  # type: ignore[no-untyped-call]

    @property
    def channel(self) -> Channel:
        """Our side's channel."""
        assert self.protocol.channel is not None
        return self.protocol.channel

    def send_bytes(self, data: bytes) -> None:
        """Let bytes arrive, in one read."""
        self.protocol.dataReceived(data)

    def send(self, *commands: RemotingCommand) -> None:
        """Let commands arrive, all in one read."""
        self.send_bytes(b"".join(map(build_frame, commands)))

    def received(self) -> list[RemotingCommand]:
        """Return the bytes written to this peer since the last call."""
        data = b"".join(self.transport.writes)
        self.transport.writes.clear()
        return self._connection.receive_data(data)

    def ask(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        fields: dict[str, str] | None = None,
        version: int = 513,
        oneway: bool = False,
    ) -> RemotingCommand:
        """Send one request and return its one answer."""
        answers = self.ask_all(code, header, body, fields=fields, version=version, oneway=oneway)
        assert len(answers) == 1, answers
        return answers[0]

    def ask_all(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        fields: dict[str, str] | None = None,
        version: int = 513,
        oneway: bool = False,
    ) -> list[RemotingCommand]:
        """Send one request and return everything that comes back at once."""
        self._last_opaque += 1
        ext_fields = dict(fields or {}) if header is None else build_header(header)
        self.send(
            RemotingCommand(
                code,
                opaque=self._last_opaque,
                flag=ONEWAY_FLAG if oneway else 0,
                version=version,
                ext_fields=ext_fields,
                body=body,
            )
        )
        return self.received()

    def leave(self) -> None:
        """Close the connection from the far end."""
        self.transport.loseConnection()


class Conversation:
    """A running server without methods (unless a dispatch is given) and the peers that connect to it."""

    def __init__(
        self, dispatch: Dispatch | None = None, reactor: MemoryReactorClock | None = None, **settings: Any
    ) -> None:
        self.reactor = memory_reactor() if reactor is None else reactor
        self.dispatch = Dispatch() if dispatch is None else dispatch
        self.settings = replace(SETTINGS, **settings)
        self.server = RemotingServer(self.reactor, self.dispatch, [("127.0.0.1", 10911)], self.settings)
        self.server.startService()
        self._next_port = 50_000

    def connect(self, host: str = "192.0.2.7", local: tuple[str, int] = (SERVER_HOST, 10911)) -> Peer:
        """A new connection; it must be accepted."""
        factory = self.reactor.tcpServers[0][1]
        self._next_port += 1
        remote = (host, self._next_port)
        protocol = factory.buildProtocol(IPv4Address("TCP", *remote))
        assert isinstance(protocol, RemotingProtocol)
        return Peer(protocol, remote, local)


def outcome(coroutine: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run a coroutine; the list gets its value or its exception when it has ended."""
    seen: list[Any] = []
    ensureDeferred(coroutine).addCallbacks(seen.append, lambda failure: seen.append(failure.value))
    return seen


def request(code: int = RequestCode.GET_BROKER_CLUSTER_INFO, opaque: int = 1, **rest: Any) -> RemotingCommand:
    """A request command."""
    return RemotingCommand(code, opaque=opaque, **rest)
