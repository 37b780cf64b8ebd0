"""A blocking connection over a socket pair, whose other end is the test."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest

from gateway.client.errors import ConnectError, ConnectionLost, ProtocolError, RequestTimeout
from gateway.spark.asking.connection import MAX_WAITING, BlockingConnection, open_connection, request
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.headers.offsets import GetMinOffsetRequest


class Peer:
    """The other end: takes requests, writes what the test wants."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self._connection = Connection()

    def requests(self) -> list[RemotingCommand]:
        return self._connection.receive_data(self.socket.recv(1 << 20))

    def answer(self, request: RemotingCommand, code: int = 0, body: bytes = b"") -> None:
        self.socket.sendall(build_frame(request.response(code, body=body)))


@pytest.fixture
def pair() -> Iterator[tuple[BlockingConnection, Peer]]:
    """A connection and its peer."""
    ours, theirs = socket.socketpair()
    connection = BlockingConnection(ours, "10.0.0.7:10911")
    yield connection, Peer(theirs)
    connection.close()
    theirs.close()


def ask() -> RemotingCommand:
    return request(RequestCode.GET_MIN_OFFSET, GetMinOffsetRequest(topic="orders", queue_id=3))


def test_a_request_is_answered(pair: tuple[BlockingConnection, Peer]) -> None:
    connection, peer = pair
    opaque = connection.start(ask(), 1)
    [asked] = peer.requests()
    assert (asked.code, asked.ext_fields["topic"]) == (RequestCode.GET_MIN_OFFSET, "orders")
    peer.answer(asked, body=b"x" * 4_000)
    assert connection.finish(opaque, 1).body == b"x" * 4_000


def test_answers_may_come_in_any_order_and_requests_of_the_server_are_passed_over(
    pair: tuple[BlockingConnection, Peer],
) -> None:
    connection, peer = pair
    first, second = connection.start(ask(), 1), connection.start(ask(), 1)
    asked = peer.requests()
    peer.socket.sendall(build_frame(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=first)))
    peer.answer(asked[1], body=b"second")
    peer.answer(asked[0], body=b"first")
    assert connection.finish(first, 1).body == b"first"
    assert connection.finish(second, 1).body == b"second"


def test_an_answer_nobody_waits_for_any_more_is_dropped(pair: tuple[BlockingConnection, Peer]) -> None:
    connection, peer = pair
    early, late = connection.start(ask(), 1), connection.start(ask(), 1)
    asked = peer.requests()
    connection.abandon(early)
    peer.answer(asked[0], body=b"early")
    peer.answer(asked[1], body=b"late")
    assert connection.finish(late, 1).body == b"late"
    assert not connection._early


def test_a_broken_connection_is_told_of_and_not_used_again(pair: tuple[BlockingConnection, Peer]) -> None:
    connection, peer = pair
    first, second = connection.start(ask(), 1), connection.start(ask(), 1)
    peer.socket.close()
    for opaque in (first, second):
        with pytest.raises(ConnectionLost, match=r"10\.0\.0\.7:10911"):
            connection.finish(opaque, 1)
    with pytest.raises(ConnectionLost):
        connection.start(ask(), 1)
    assert not connection.is_open


def test_silence_is_a_timeout(pair: tuple[BlockingConnection, Peer]) -> None:
    connection, _ = pair
    with pytest.raises(RequestTimeout, match="GET_MIN_OFFSET"):
        connection.call(ask(), 0.01)


@pytest.mark.parametrize("junk", [b"HTTP/1.1 400 Bad", b"\0\0\0\1\0\0\0\0", b"\0\0\0\x08\7\0\0\0abcd"])
def test_another_protocol_is_told_of(pair: tuple[BlockingConnection, Peer], junk: bytes) -> None:
    connection, peer = pair
    peer.socket.sendall(junk)
    with pytest.raises(ProtocolError):
        connection.call(ask(), 1)


def test_many_questions_are_on_their_way_at_once_but_not_all() -> None:
    class Recorder(BlockingConnection):
        most = 0

        def start(self, command: RemotingCommand, timeout_s: float) -> int:
            self._next_opaque += 1
            self._waiting[self._next_opaque] = command.code
            self.most = max(self.most, len(self._waiting))
            return self._next_opaque

        def finish(self, opaque: int, timeout_s: float) -> RemotingCommand:
            del self._waiting[opaque]
            return RemotingCommand(ResponseCode.SUCCESS, opaque=opaque)

    ours, theirs = socket.socketpair()
    with theirs:
        connection = Recorder(ours, "here")
        answers = connection.call_all([ask() for _ in range(1000)], 1)
        assert [answer.opaque for answer in answers] == list(range(1, 1001))
        assert connection.most == MAX_WAITING
        connection.close()


def test_requests_are_signed(pair: tuple[BlockingConnection, Peer]) -> None:
    ours, theirs = socket.socketpair()
    connection = BlockingConnection(ours, "here", sign=lambda command: command.ext_fields.update(Signature="s"))
    connection.start(ask(), 1)
    assert Peer(theirs).requests()[0].ext_fields["Signature"] == "s"
    connection.close()
    theirs.close()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:9876", "127.0.0.1:port"])
def test_no_connection_names_the_address(address: str) -> None:
    with pytest.raises(ConnectError, match=address.partition(":")[0]):
        open_connection(address, timeout_s=1)


def test_tls_with_something_else_is_a_connect_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(1)
        with pytest.raises(ConnectError):
            open_connection(f"127.0.0.1:{port}", timeout_s=0.05, tls=ssl.create_default_context())


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:" + "9" * 5_000, "x", ":"])
def test_an_address_that_is_none_is_an_error_that_names_it(address: str) -> None:
    with pytest.raises(ConnectError, match=address[:12]):
        open_connection(address, timeout_s=1.0)
