"""Writing to a socket or to a transport, and knowing when to stop."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import cast

import pytest
from twisted.internet import main, tcp
from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import Protocol

from gateway.remoting.answers.output import SocketOutput, TransportOutput, output_for, send_without_delay
from gateway.tests.remoting.conversation import MemoryTransport, memory_reactor

LARGE = b"x" * (4 << 20)


class Received(Protocol):
    """Keeps what is read."""

    read = b""

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        self.read += data


class Pair:
    """A Twisted TCP transport over a socket pair whose far end this test reads by hand."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.far.setblocking(False)
        self.received = Received()
        self.transport = tcp.Connection(self.near, self.received, memory_reactor())
        self.transport.connected = 1
        self.drained = 0
        output = output_for(self.transport, self._drained)
        assert isinstance(output, SocketOutput)
        self.output = output

    def _drained(self) -> None:
        self.drained += 1

    def read(self) -> bytes:
        received = b""
        while True:
            try:
                received += self.far.recv(1 << 20)
            except BlockingIOError:
                return received


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.near.close()
    pair.far.close()


def test_what_the_kernel_takes_is_gone_at_once(pair: Pair) -> None:
    pair.output.write(b"answer")
    assert pair.read() == b"answer"
    assert not pair.output.blocked
    assert pair.output.unsent_bytes == 0


def test_what_the_kernel_does_not_take_is_sent_by_the_reactor(pair: Pair) -> None:
    pair.output.write(LARGE)
    assert pair.output.blocked
    assert 0 < pair.output.unsent_bytes < len(LARGE)
    received = pair.read()
    while pair.output.blocked:
        pair.transport.doWrite()  # type: ignore[no-untyped-call]
        received += pair.read()
    assert received == LARGE
    assert pair.drained == 1
    assert pair.output.unsent_bytes == 0
    assert pair.transport.producer is None


def test_every_byte_that_is_taken_of_a_large_rest_is_seen(pair: Pair) -> None:
    pair.output.write(LARGE)
    before = pair.output.untaken_bytes()
    assert before >= pair.output.unsent_bytes
    assert pair.output.untaken_bytes() == before
    for _ in range(3):
        taken = 0
        while taken < 100_000:
            taken += len(pair.far.recv(100_000))
        assert pair.output.blocked
        assert pair.output.untaken_bytes() < before
        before = pair.output.untaken_bytes()
        pair.transport.doWrite()  # type: ignore[no-untyped-call]


def test_what_a_lost_peer_had_sent_is_read_before_its_end(pair: Pair) -> None:
    sent = b"x" * 100_000
    pair.far.sendall(sent)
    pair.far.close()
    pair.output.write(b"answer")
    pair.output.write(b"answer")
    assert not pair.output.blocked
    while (end := pair.transport.doRead()) is None:
        pass
    assert end is main.CONNECTION_DONE
    assert pair.received.read == sent


def test_a_connection_that_takes_no_answers_is_ended_even_when_its_peer_stays(pair: Pair) -> None:
    pair.near.shutdown(socket.SHUT_WR)
    pair.output.write(b"answer")
    assert pair.transport.doRead() is main.CONNECTION_DONE
    assert pair.far.recv(1) == b""


def test_a_released_output_lets_the_transport_close_after_its_last_byte(pair: Pair) -> None:
    pair.output.write(LARGE)
    pair.output.release()
    assert pair.transport.producer is None


def test_a_lost_transport_forgets_the_rest(pair: Pair) -> None:
    pair.transport.disconnected = 1
    pair.output.write(LARGE)
    assert pair.output._rest == b""


class Mirror:
    """A transport that "encrypts" by turning bytes around."""

    def __init__(self, raw: tcp.Connection) -> None:
        self.raw = raw

    def seal(self, data: bytes) -> bytes:
        return data[::-1]


def test_a_sealed_output_sends_encrypted_bytes_straight_to_the_socket(pair: Pair) -> None:
    output = output_for(cast(ITransport, Mirror(pair.transport)), pair._drained)
    output.write(b"abc")
    output.write_own(b"own")
    assert pair.read() == b"cbaown"
    assert not output.blocked


def test_bytes_of_the_encryption_itself_stay_in_their_place(pair: Pair) -> None:
    output = output_for(cast(ITransport, Mirror(pair.transport)), pair._drained)
    output.write(LARGE + b"end")
    assert output.blocked
    output.write_own(b"own")
    received = b""
    while output.blocked:
        pair.transport.doWrite()  # type: ignore[no-untyped-call]
        received += pair.read()
    output.write(b"abc")
    received += pair.read()
    assert received == b"dne" + LARGE + b"own" + b"cba"
    output.end()
    output.write(b"nobody is there")


def test_other_transports_are_asked_to_say_when_they_have_enough() -> None:
    transport = MemoryTransport()
    drained: list[int] = []
    output = output_for(transport, lambda: drained.append(1))
    assert isinstance(output, TransportOutput)
    assert transport.producer is output
    assert transport.streaming
    output.write(b"one")
    assert not output.blocked
    transport.full()
    assert output.blocked
    transport.empty()
    assert not output.blocked
    assert drained == [1]
    output.stopProducing()
    output.release()
    assert transport.producer is None
    assert transport.writes == [b"one"]


def test_a_write_that_fills_the_transport_counts_as_unsent() -> None:
    class Small(MemoryTransport):
        def write(self, data: bytes) -> None:
            super().write(data)
            self.full()

    output = TransportOutput(Small(), lambda: None)
    output.write(b"four")
    assert output.blocked
    assert output.unsent_bytes == 4


def test_nagle_is_off_where_there_is_tcp_and_no_matter_elsewhere() -> None:
    with socket.socket() as near:
        send_without_delay(tcp.Connection(near, Protocol(), memory_reactor()))
        assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    send_without_delay(MemoryTransport())
