"""A connection that is over leaves nothing: no circle keeps it, and its unsent bytes, for the garbage collector."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from twisted.internet import tcp
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.testing import MemoryReactorClock

from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.output import Output, SocketOutput
from gateway.remoting.channel import Channel
from gateway.remoting.client import RemotingClient
from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch, Request
from gateway.remoting.input import Input
from gateway.remoting.protocol import RemotingProtocol
from gateway.remoting.server import RemotingServer
from gateway.settings import Address, RemotingSettings
from gateway.tests.remoting.conversation import failure_of, memory_reactor, outcome, request
from wire.codes import RequestCode
from wire.connection import Connection
from wire.frame import build_frame

OF_A_CONNECTION = (Channel, Input, Output, RemotingProtocol, Request, Connection, tcp.Connection)
CODE = RequestCode.QUERY_MESSAGE
SETTINGS = RemotingSettings()


def of_connections() -> set[int]:
    return {id(each) for each in gc.get_objects() if isinstance(each, OF_A_CONNECTION)}


@contextmanager
def nothing_stays() -> Iterator[None]:
    """Check that objects made in the block are freed at its end, without a garbage collection."""
    gc.collect()
    before = of_connections()
    gc.disable()
    try:
        yield
        left = [each for each in gc.get_objects() if isinstance(each, OF_A_CONNECTION) and id(each) not in before]
        assert left == []
    finally:
        gc.enable()


class NumberedTransport(tcp.Connection):
    """A TCP connection over a pair of sockets: it needs addresses."""

    def getPeer(self) -> IPv4Address:  # noqa: N802 (Twisted's name)
        return IPv4Address("TCP", "192.0.2.7", 50_000)

    getHost = getPeer  # noqa: N815 (Twisted's name)


def answered_with(size: int) -> Dispatch:
    dispatch = Dispatch()
    dispatch.answers_directly(CODE, lambda asked: asked.answer(0, body=bytes(size)), EVERYBODY)
    return dispatch


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = socket.create_connection(listening.getsockname())
        near, _ = listening.accept()
    near.setblocking(False)
    return near, far


def connected(server: RemotingServer, reactor: MemoryReactorClock) -> tuple[Any, socket.socket]:
    """A connection of the server, and its far end."""
    near, far = pair()
    protocol = server.new_protocol(None)
    assert protocol is not None
    transport: Any = NumberedTransport(near, protocol, reactor)
    transport.connected = 1
    protocol.makeConnection(transport)  # type: ignore[no-untyped-call]
    return transport, far


@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("end", ["leaves", "is closed", "is dropped"])
def test_an_accepted_connection_leaves_nothing(end: str, unread: bool) -> None:
    reactor = memory_reactor()
    server = RemotingServer(reactor, answered_with(8 << 20 if unread else 100), [], SETTINGS)
    with nothing_stays():
        transport, far = connected(server, reactor)
        far.sendall(build_frame(request(CODE)) + build_frame(request(CODE)))
        transport.doRead()
        reactor.advance(0)
        [channel] = server.channels.values()
        assert unread == (channel.unsent_bytes > 0)
        if end == "is closed":
            channel.close("enough")
        elif end == "is dropped":
            channel.abort("enough")
        del channel
        reactor.advance(0)
        if end != "is dropped":
            transport.connectionLost(failure_of(ConnectionDone("closed")))
        del transport
        far.close()
        reactor.advance(60)
        assert server.room.total_bytes == 0


def test_a_connection_with_malformed_bytes_leaves_nothing() -> None:
    reactor = memory_reactor()
    server = RemotingServer(reactor, Dispatch(), [], SETTINGS)
    with nothing_stays():
        transport, far = connected(server, reactor)
        far.sendall(b"garbage" * 10)
        transport.doRead()
        reactor.advance(0)
        assert server.channels == {}
        transport.connectionLost(failure_of(ConnectionDone("closed")))
        del transport
        far.close()
        reactor.advance(60)


def test_a_call_that_is_not_answered_leaves_nothing() -> None:
    reactor = memory_reactor()
    server = RemotingServer(reactor, Dispatch(), [], SETTINGS)
    with nothing_stays():
        transport, far = connected(server, reactor)
        [channel] = server.channels.values()
        seen = outcome(channel.call(RequestCode.CHECK_CLIENT_CONFIG))
        del channel
        reactor.advance(0)
        transport.connectionLost(failure_of(ConnectionLost("gone")))
        assert len(seen) == 1
        del transport, seen
        far.close()
        reactor.advance(60)


def test_a_connection_of_ours_leaves_nothing() -> None:
    reactor = memory_reactor()
    client = RemotingClient(reactor, Dispatch(), SETTINGS)
    with nothing_stays():
        seen = outcome(client.channel(Address("192.0.2.1", 9876)))
        factory = reactor.tcpClients.pop()[2]
        near, far = pair()
        protocol: Any = factory.buildProtocol(None)
        transport: Any = NumberedTransport(near, protocol, reactor)
        transport.connected = 1
        connector: Any = _Connector(transport)
        transport.connector = connector
        protocol.makeConnection(transport)
        [channel] = seen
        assert isinstance(channel, Channel)
        del channel, protocol
        seen.clear()
        transport.connectionLost(failure_of(ConnectionLost("gone")))
        factory.clientConnectionLost(connector, failure_of(ConnectionLost("gone")))
        del transport, connector, factory
        far.close()
        reactor.advance(60)
        client._peers.clear()  # the address keeps its last channel, which is all that is left of it


class _Connector:
    """Knows its transport, as Twisted's does."""

    def __init__(self, transport: object) -> None:
        self.transport = transport


def test_a_channel_that_somebody_keeps_does_not_keep_its_transport() -> None:
    reactor = memory_reactor()
    server = RemotingServer(reactor, answered_with(8 << 20), [], SETTINGS)
    gc.collect()
    before = of_connections()
    transport, far = connected(server, reactor)
    far.sendall(build_frame(request(CODE)))
    transport.doRead()
    reactor.advance(0)
    [channel] = server.channels.values()
    gc.disable()
    try:
        transport.connectionLost(failure_of(ConnectionDone("closed")))
        del transport
        left = [each for each in gc.get_objects() if isinstance(each, OF_A_CONNECTION) and id(each) not in before]
        assert [type(each) for each in left] == [Channel]
        assert SocketOutput not in map(type, left)
    finally:
        gc.enable()
    far.close()
    assert channel.unsent_bytes == 0
    channel.send(request(CODE))
    channel.close("late")
    assert isinstance(server.room, AnswerRoom)
