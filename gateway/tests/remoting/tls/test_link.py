"""A TLS connection: its limits hold against whoever stops, floods, renegotiates, does not read or sends garbage."""

from __future__ import annotations

import itertools
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from OpenSSL import SSL

from gateway.remoting.answers.output import SealedOutput
from gateway.remoting.input_turn import HANDSHAKE_S
from gateway.remoting.server import RemotingServer
from gateway.remoting.tls.link import HANDSHAKE_BYTES, HANDSHAKE_HELD_BYTES, MAX_OWED_BYTES, RECORD_BYTES, Link
from gateway.settings import RemotingSettings
from gateway.tests.remoting.conversation import TURN_SECONDS, Conversation, TurnReactor, failure_of, memory_reactor
from gateway.tests.remoting.test_given_back import connected, nothing_stays
from gateway.tests.remoting.tls.key_updates import APPLICATION_DATA, KeyUpdates
from gateway.tests.remoting.tls.speaking import CODE, TlsPeer, echoing, encrypted, trusting
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame

TIMEOUT_S = RemotingSettings().tls_handshake_timeout_ms / 1_000


@pytest.fixture
def talk() -> Conversation:
    return Conversation(echoing()[0])


def begun(talk: Conversation, host: str = "192.0.2.7") -> TlsPeer:
    """A peer that has sent its hello, and stops."""
    peer = TlsPeer(talk.connect(host), trusting())
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    peer.pump()
    return peer


def held(talk: Conversation, peer: TlsPeer | None = None) -> int:
    """Return the bytes that count as incomplete; with a peer only those of its link."""
    frames = talk.server.incomplete_frames
    if peer is None:
        return frames.total_bytes
    return sum(count for holder, count in frames._bytes_by_holder.items() if isinstance(holder, Link))


def test_all_requests_of_one_read_are_answered_with_one_write(talk: Conversation) -> None:
    peer = encrypted(talk)
    peer.send(*(b"%d" % number for number in range(50)))
    assert len(peer.peer.transport.writes) == 1
    assert peer.received() == [b"%d" % number for number in range(50)]


def test_a_frame_of_many_records_arrives_whole_however_it_is_cut(talk: Conversation) -> None:
    peer = encrypted(talk)
    body = bytes(range(256)) * 400
    sealed = peer.sealed(body, b"next")
    for begin in range(0, len(sealed), 7_001):
        peer.peer.send_bytes(sealed[begin : begin + 7_001])
    assert peer.received() == [body, b"next"]
    assert held(talk) == 0


def test_requests_in_the_read_that_ends_the_handshake_are_answered(talk: Conversation) -> None:
    peer = begun(talk)
    peer.tls.do_handshake()
    peer.peer.send_bytes(peer.made() + peer.sealed(b"early"))
    assert peer.received() == [b"early"]


def test_a_handshake_that_stops_is_ended_in_time(talk: Conversation, caplog: pytest.LogCaptureFixture) -> None:
    peer, other = begun(talk), encrypted(talk)
    silent = talk.connect()
    silent.send_bytes(b"\x16")
    assert held(talk) == 2 * HANDSHAKE_HELD_BYTES
    talk.reactor.advance(TIMEOUT_S - 0.1)
    assert not peer.peer.channel.closed
    with caplog.at_level(logging.WARNING):
        talk.reactor.advance(0.2)
    assert peer.peer.channel.closed
    assert silent.channel.closed
    assert peer.peer.transport.disconnected
    assert "gateway.tlsHandshakeTimeoutMs" in caplog.records[0].__dict__["facts"]["reason"]
    assert held(talk) == 0
    other.send(b"still here")
    assert other.received() == [b"still here"]


def test_a_handshake_that_is_kept_alive_by_single_bytes_ends_in_time_too(talk: Conversation) -> None:
    peer = talk.connect()
    for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03":
        peer.send_bytes(bytes([byte]))
        talk.reactor.advance(TIMEOUT_S / 11 + 0.01)
    assert peer.channel.closed
    assert held(talk) == 0


def test_a_finished_handshake_is_not_ended_later(talk: Conversation) -> None:
    peer = encrypted(talk)
    assert held(talk) == 0
    talk.reactor.advance(TIMEOUT_S * 2)
    peer.send(b"late")
    assert peer.received() == [b"late"]


def test_of_too_many_unfinished_handshakes_the_oldest_are_dropped() -> None:
    talk = Conversation(echoing()[0], incomplete_frame_bytes_limit=16_777_216)
    honest, plain = encrypted(talk), talk.connect()
    most = 16_777_216 // HANDSHAKE_HELD_BYTES
    peers = [talk.connect() for _ in range(most + 10)]
    for peer in peers:
        peer.send_bytes(b"\x16")
    assert [peer.channel.closed for peer in peers] == [True] * 10 + [False] * most
    assert held(talk) == most * HANDSHAKE_HELD_BYTES
    honest.send(b"1")
    assert honest.received() == [b"1"]
    assert plain.ask(CODE, body=b"2").body == b"2"
    for peer in peers:
        peer.leave()
    assert held(talk) == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("step", [1, 4, 7, 5_000, 65_536])
def test_an_incomplete_record_counts_until_it_is_whole(talk: Conversation, version: ssl.TLSVersion, step: int) -> None:
    peer = encrypted(talk, trusting(version))
    sealed = peer.sealed(bytes(20_000), b"next")
    sizes = []
    rest = sealed
    while rest:
        sizes.append(5 + int.from_bytes(rest[3:5], "big"))
        rest = rest[sizes[-1] :]
    ends = {sum(sizes[:count]) for count in range(len(sizes) + 1)}
    for begin in range(0, len(sealed), step):
        peer.peer.send_bytes(sealed[begin : begin + step])
        came = min(begin + step, len(sealed))
        incomplete = came - max(end for end in ends if end <= came)
        assert held(talk, peer) == incomplete
    assert peer.received() == [bytes(20_000), b"next"]
    assert held(talk) == 0


def test_incomplete_records_count_beside_incomplete_frames() -> None:
    talk = Conversation(echoing()[0], incomplete_frame_bytes_limit=16_777_216)
    honest, plain = encrypted(talk), talk.connect()
    plain.send_bytes((16_770_000).to_bytes(4, "big") + bytes(16_770_000 - 12_000))
    peers = [encrypted(talk) for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.peer.send_bytes(peer.sealed(bytes(15_000 + number))[:10_000])
    assert plain.channel.closed
    assert held(talk) == 30_000
    honest.send(b"1")
    assert honest.received() == [b"1"]
    for peer in peers:
        peer.peer.leave()
    assert held(talk) == 0


def test_openssl_is_given_no_more_than_a_record_at_once(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = encrypted(talk)
    sizes: list[int] = []
    write = SSL.Connection.bio_write

    def noted(connection: SSL.Connection, data: bytes) -> int:
        sizes.append(len(data))
        return write(connection, data)

    monkeypatch.setattr(SSL.Connection, "bio_write", noted)
    bodies = [bytes([number]) * 1_000 for number in range(60)]
    peer.send(*bodies)
    assert peer.received() == bodies
    assert max(sizes) <= RECORD_BYTES
    assert sum(sizes) > 60_000


def test_a_giant_hello_ends_its_connection(talk: Conversation, caplog: pytest.LogCaptureFixture) -> None:
    peer = talk.connect()
    hello = b"\x01" + (131_000).to_bytes(3, "big") + b"\x03\x03" + bytes(131_000)
    with caplog.at_level(logging.WARNING):
        for begin in range(0, len(hello), 16_000):
            part = hello[begin : begin + 16_000]
            peer.send_bytes(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part)
    assert peer.channel.closed
    assert f"longer than {HANDSHAKE_BYTES} bytes" in caplog.records[0].__dict__["facts"]["reason"]
    assert held(talk) == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\x16" + bytes(100),
        b"\x16" * 100,
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
        b"\x16\x03\x01\x00\x05GET /" + bytes(50),
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x00" * 40,
        b"\x16\x03\x03\x00\x01\x01\x15\x03\x03\x00\x02\x02\x28",
    ],
)
def test_garbage_in_a_handshake_ends_the_connection_and_is_named(
    data: bytes, talk: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    peer, other = talk.connect(), encrypted(talk)
    with caplog.at_level(logging.WARNING):
        peer.send_bytes(data)
        peer.send_bytes(data)
    assert peer.channel.closed
    assert len(caplog.messages) == 1
    assert held(talk) == 0
    other.send(b"still here")
    assert other.received() == [b"still here"]


def test_a_refused_handshake_tells_the_peer_with_an_alert() -> None:
    talk = Conversation(echoing()[0], tls_protocols="TLSv1.3")
    peer = TlsPeer(talk.connect(), trusting(ssl.TLSVersion.TLSv1_2))
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        peer.handshake()


@pytest.mark.parametrize("changed", [0, 5, 40, -1])
def test_bytes_changed_on_the_way_end_the_connection_without_being_carried_out(changed: int) -> None:
    dispatch, seen = echoing()
    talk = Conversation(dispatch)
    peer = encrypted(talk)
    sealed = bytearray(peer.sealed(b"pay 10"))
    sealed[changed] ^= 1
    peer.peer.send_bytes(bytes(sealed))
    assert peer.peer.channel.closed
    assert seen == []


def test_plain_bytes_after_a_handshake_are_no_requests() -> None:
    dispatch, seen = echoing()
    talk = Conversation(dispatch)
    peer = encrypted(talk)
    peer.peer.send(RemotingCommand(CODE, opaque=1, body=b"open"))
    assert peer.peer.channel.closed
    assert seen == []


def openssl_peer(talk: Conversation) -> tuple[SSL.Connection, Any]:
    """A client of TLS 1.2 that may renegotiate, after its handshake."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    client, peer = SSL.Connection(context), talk.connect()
    client.set_connect_state()
    for _ in range(3):
        try:
            client.do_handshake()
        except SSL.WantReadError:
            peer.send_bytes(client.bio_read(65_536))
            if peer.transport.writes:
                client.bio_write(b"".join(peer.transport.writes))
                peer.transport.writes.clear()
    return client, peer


def test_a_renegotiation_is_refused(talk: Conversation) -> None:
    client, peer = openssl_peer(talk)
    client.renegotiate()
    with pytest.raises(SSL.WantReadError):
        client.do_handshake()
    peer.send_bytes(client.bio_read(65_536))
    client.bio_write(b"".join(peer.transport.writes))
    with pytest.raises(SSL.Error, match="no renegotiation"):
        client.do_handshake()
    assert not peer.channel.closed
    assert held(talk) == 0


def test_requests_for_new_keys_are_answered(talk: Conversation, tmp_path: Path) -> None:
    peer = logged(talk, tmp_path)
    updates = KeyUpdates(tmp_path / "keys")
    frame = build_frame(RemotingCommand(CODE, opaque=1, body=b"after"))
    peer.peer.send_bytes(updates.ask())
    peer.peer.send_bytes(updates.ask())  # OpenSSL answers a request at its next call
    assert len(peer.peer.transport.writes) == 1
    peer.peer.send_bytes(updates.ask() + updates.ask() + updates.record(frame, APPLICATION_DATA))
    assert peer.received() == [b"after"]


def test_requests_for_new_keys_without_end_close_the_connection(
    talk: Conversation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is answered, and a peer that does not read would have all answers kept for it."""
    peer, other = logged(talk, tmp_path), encrypted(talk)
    peer.peer.transport.full()
    peer.send(b"asked")
    assert peer.peer.channel.unsent_bytes
    updates = KeyUpdates(tmp_path / "keys", 1)
    frame = build_frame(RemotingCommand(CODE, opaque=1, body=bytes(1 << 20)))
    sent = 0
    while not peer.peer.channel.closed:
        part = frame[sent : sent + 1]
        peer.peer.send_bytes(updates.ask() + updates.record(part, APPLICATION_DATA) + updates.ask())
        sent += 1
        assert sent < MAX_OWED_BYTES
    assert "does not read what TLS answers" in caplog.records[-1].__dict__["facts"]["reason"]
    other.send(b"still here")
    assert other.received() == [b"still here"]


def logged(talk: Conversation, tmp_path: Path) -> TlsPeer:
    context = trusting(ssl.TLSVersion.TLSv1_3)
    context.keylog_filename = str(tmp_path / "keys")
    peer = encrypted(talk, context)
    assert peer.received() == []
    return peer


def test_a_handshake_waits_for_its_turn(talk: Conversation) -> None:
    """A flood of handshakes must not stall requests: what does not fit into a turn waits for a later one."""
    talk.server.input_turn.used_s = 1.0
    peer = TlsPeer(talk.connect(), trusting())
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    hello = peer.made()
    peer.peer.send_bytes(hello[:100])
    peer.peer.send_bytes(hello[100:])
    assert peer.peer.transport.writes == []
    talk.reactor.advance(0)
    peer.take()
    peer.handshake()
    peer.send(b"then")
    assert peer.received() == [b"then"]


@pytest.mark.parametrize(("step_s", "at_once"), [(HANDSHAKE_S / 2, 2), (1.0, 1)])
def test_of_a_flood_of_handshakes_one_goes_on_in_each_turn(step_s: float, at_once: int) -> None:
    """However long each takes; requests come between."""
    talk = Conversation(echoing()[0], TurnReactor())  # type: ignore[no-untyped-call]
    honest = encrypted(talk, host="192.0.2.8")
    seconds = itertools.count(step=step_s)
    talk.server.input_turn.seconds = lambda: next(seconds)
    peers = [talk.connect(f"192.0.2.{number}") for number in range(20, 40)]
    hello = TlsPeer(talk.connect(), trusting())
    with pytest.raises(ssl.SSLWantReadError):
        hello.tls.do_handshake()
    data = hello.made()
    for peer in peers:
        peer.send_bytes(data)
    begun = [peer for peer in peers if peer.transport.writes]
    assert len(begun) == at_once
    for turns in range(at_once, len(peers)):
        honest.send(b"%d" % turns)
        talk.reactor.advance(TURN_SECONDS)
        assert honest.received() == [b"%d" % turns]
        begun = [peer for peer in peers if peer.transport.writes]
        assert len(begun) == turns + 1


def test_a_handshake_that_waits_for_its_turn_may_be_over_by_then(talk: Conversation) -> None:
    talk.server.input_turn.used_s = 1.0
    peer = talk.connect()
    peer.send_bytes(b"\x16\x03\x01")
    peer.leave()
    talk.reactor.advance(1)
    assert held(talk) == 0


def test_requests_wait_while_their_peer_does_not_read_the_answers() -> None:
    talk = Conversation(echoing()[0], unsent_bytes_limit=1 << 20)
    peer = encrypted(talk)
    peer.peer.transport.full()
    peer.send(*(b"%8192d" % number for number in range(200)))  # 1.6 MB of answers
    assert not peer.peer.channel.closed
    assert not peer.peer.transport.reads
    assert 0 < peer.peer.channel.unsent_bytes < 100_000
    peer.peer.transport.empty()
    assert list(map(int, peer.received())) == list(range(200))
    assert peer.peer.transport.reads


def test_a_close_tells_the_peer(talk: Conversation) -> None:
    peer = encrypted(talk)
    peer.send(b"last")
    peer.peer.channel.close("enough")
    peer.take()
    assert peer.tls.read(65_536).endswith(b"last")
    assert peer.tls.read(1) == b""  # an end, and no cut connection


def test_a_peer_that_ends_tls_is_closed(talk: Conversation) -> None:
    peer = encrypted(talk)
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.peer.send_bytes(peer.made())
    assert peer.peer.channel.closed
    assert not peer.peer.transport.connected


def test_an_idle_connection_is_closed(talk: Conversation) -> None:
    peer = encrypted(talk)
    talk.reactor.pump([10.0] * 20)
    assert peer.peer.channel.closed


# Over real sockets, which have outputs of their own


class Far:
    """The far end of a connection over sockets, one turn at a time."""

    def __init__(self, server: RemotingServer, reactor: Any) -> None:
        self.transport, far = connected(server, reactor)
        far.setblocking(False)
        context = trusting()
        self.tls = context.wrap_socket(far, do_handshake_on_connect=False)
        self.reactor = reactor
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.turn()

    def turn(self) -> None:
        """Let the server read and write what it can."""
        if self.transport.connected:
            self.transport.doRead()
        if self.transport.connected and self.transport in self.reactor.writers:
            self.transport.doWrite()
        self.reactor.advance(0)

    def ask(self, *bodies: bytes) -> None:
        self.tls.sendall(b"".join(build_frame(RemotingCommand(CODE, opaque=1, body=body)) for body in bodies))
        self.turn()

    def receive(self, count: int) -> list[bytes]:
        """Return this number of answers."""
        connection = Connection()
        found: list[RemotingCommand] = []
        while len(found) < count:
            try:
                found += connection.receive_data(self.tls.recv(65_536))
            except ssl.SSLWantReadError:
                self.turn()
        return [answer.body for answer in found]

    def leave(self) -> None:
        self.tls.close()
        self.transport.connectionLost(failure_of(ConnectionError("closed")))


def test_answers_go_straight_to_the_socket_and_large_ones_arrive_whole() -> None:
    reactor = memory_reactor()
    server = RemotingServer(reactor, echoing()[0], [], RemotingSettings())
    far = Far(server, reactor)
    [channel] = server.channels.values()
    assert type(channel._output) is SealedOutput
    far.ask(b"small")
    assert far.receive(1) == [b"small"]
    far.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    body = bytes(range(256)) * 16_384  # 4 MiB
    frame = build_frame(RemotingCommand(CODE, opaque=1, body=body))
    sent = 0
    while sent < len(frame):
        try:
            sent += far.tls.send(frame[sent : sent + 16_384])
        except ssl.SSLWantWriteError:
            far.turn()
    while not channel.unsent_bytes:
        far.turn()
    assert channel.untaken_bytes >= channel.unsent_bytes > 0
    far.ask(b"after it")
    assert far.receive(2) == [body, b"after it"]
    assert channel.unsent_bytes == 0
    far.leave()


@pytest.mark.parametrize("end", ["leaves", "is closed", "is dropped", "ends TLS", "sends garbage"])
@pytest.mark.parametrize("finished", [False, True])
def test_a_connection_leaves_nothing(end: str, finished: bool) -> None:
    reactor = memory_reactor()
    server = RemotingServer(reactor, echoing()[0], [], RemotingSettings())
    Far(server, reactor).leave()  # what is loaded and made once stays
    with nothing_stays():
        if finished:
            far = Far(server, reactor)
            far.ask(b"asked")
            assert far.receive(1) == [b"asked"]
            transport, tls = far.transport, far.tls
            del far
        else:
            transport, raw = connected(server, reactor)
            raw.sendall(b"\x16\x03\x01")
            transport.doRead()
            tls = raw  # type: ignore[assignment]
        channel = list(server.channels.values())[-1]
        if end == "is closed":
            channel.close("enough")
        elif end == "is dropped":
            channel.abort("enough")
        elif end == "ends TLS" and finished:
            with pytest.raises(ssl.SSLWantReadError):
                tls.unwrap()
            transport.doRead()
        elif end == "sends garbage":
            socket.socket.send(tls, b"\x17garbage garbage")
            transport.doRead()
        del channel
        reactor.advance(0)
        if transport.connected and hasattr(transport, "protocol"):
            transport.connectionLost(failure_of(ConnectionError("closed")))
        del transport
        tls.close()
        del tls
        reactor.advance(60)
        assert server.incomplete_frames.total_bytes == 0
