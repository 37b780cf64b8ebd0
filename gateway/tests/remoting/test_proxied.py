"""Connections through proxies: who is believed, and what nobody may cost by such a header."""

from __future__ import annotations

import logging
import ssl
from typing import Any

import pytest
from twisted.internet.error import ConnectionDone

from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch, Request
from gateway.remoting.proxied import HEADER_SECONDS
from gateway.settings.tls import TlsMode
from gateway.tests.remoting.conversation import Conversation, Peer, failure_of
from gateway.tests.remoting.test_given_back import connected, nothing_stays
from gateway.tests.remoting.tls.speaking import CODE, TlsPeer, trusting
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.frame import build_frame
from wire.proxy_header import BINARY_BEGIN, MAX_HEADER_BYTES
from wire.tests.test_proxy_header import GOOD, TLV, binary, tcp4, tcp6

PROXY = "10.1.2.3"
TEXT = b"PROXY TCP4 192.0.2.9 10.0.0.1 40000 10911\r\n"
FRAME = build_frame(RemotingCommand(CODE, opaque=1, body=b"asked"))
HEADERS = {"text": TEXT, "binary": tcp4(), "with TLVs": tcp4(more=TLV)}


def telling() -> tuple[Dispatch, list[tuple[str, bytes]]]:
    """A dispatch that notes who asked."""
    dispatch, seen = Dispatch(), []

    def answer(request: Request) -> None:
        seen.append((request.channel.remote_text, request.channel.remote_host))
        request.answer(ResponseCode.SUCCESS, body=request.command.body)

    dispatch.answers_directly(CODE, answer, EVERYBODY)
    return dispatch, seen


def talk(listed: str = PROXY, **settings: Any) -> tuple[Conversation, list[tuple[str, bytes]]]:
    dispatch, seen = telling()
    return Conversation(dispatch, proxy_addresses=listed, **settings), seen


def bodies(peer: Peer) -> list[bytes]:
    return [answer.body for answer in peer.received()]


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_the_named_client_is_the_peer_however_the_bytes_are_cut(header: bytes, piece: int) -> None:
    conversation, seen = talk()
    peer = conversation.connect(PROXY)
    data = header + FRAME + FRAME
    for begin in range(0, len(data), piece):
        peer.send_bytes(data[begin : begin + piece])
    assert bodies(peer) == [b"asked"] * 2
    assert seen == [("192.0.2.9:40000", b"\xc0\x00\x02\x09\x00\x00\x9c\x40")] * 2
    assert str(peer.channel) == f"<Channel {peer.channel.id} 192.0.2.9:40000>"
    assert conversation.server.incomplete_frames.total_bytes == 0
    later = peer.protocol.dataReceived
    assert type(later.__self__).__name__ == "Input"  # type: ignore[attr-defined]


def test_an_address_of_ipv6_is_packed_as_one() -> None:
    conversation, seen = talk()
    peer = conversation.connect(PROXY)
    peer.send_bytes(tcp6("2001:db8::9") + FRAME)
    assert bodies(peer) == [b"asked"]
    [(text, packed)] = seen
    assert text == "[2001:db8::9]:7"
    assert len(packed) == 20


@pytest.mark.parametrize(
    "header",
    [b"PROXY UNKNOWN\r\n", binary(b"", command=0x20, family=0), binary(TLV, command=0x20), binary(b"", family=0)],
)
def test_a_header_without_client_leaves_the_proxys_address(header: bytes) -> None:
    conversation, seen = talk()
    peer = conversation.connect(PROXY)
    peer.send_bytes(header)
    assert not peer.channel.closed
    peer.send_bytes(FRAME)
    assert bodies(peer) == [b"asked"]
    assert seen[0][0].startswith(f"{PROXY}:")


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
@pytest.mark.parametrize("is_one_read", [True, False])
def test_tls_begins_behind_the_header(mode: TlsMode, is_one_read: bool) -> None:
    conversation, seen = talk(tls_mode=mode)
    peer = TlsPeer(conversation.connect(PROXY), trusting())
    if is_one_read:
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        peer.peer.send_bytes(TEXT + peer.made())
        peer.take()
    else:
        peer.peer.send_bytes(TEXT)
    peer.handshake().send(b"secret")
    assert peer.received() == [b"secret"]
    assert seen[0][0] == "192.0.2.9:40000"


def test_an_enforcing_port_refuses_plain_bytes_behind_a_header_by_the_clients_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation, seen = talk(tls_mode=TlsMode.ENFORCING)
    peer = conversation.connect(PROXY)
    with caplog.at_level(logging.WARNING):
        peer.send_bytes(TEXT + FRAME)
    assert caplog.messages == ["plain connection refused: only TLS is served"]
    assert caplog.records[0].__dict__["facts"]["remote"] == "192.0.2.9:40000"
    assert seen == []


@pytest.mark.parametrize(
    ("listed", "host", "is_believed"),
    [
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("192.0.2.1, 10.1.0.0/16", "10.1.2.3", True),
        ("10.1.2.9/24", "10.1.2.3", True),
        ("2001:db8::/32", "2001:db8::1", True),
        ("2001:db8::/32", "10.1.2.3", False),
        ("0.0.0.0/0", "::1", False),
    ],
)
def test_addresses_and_networks_are_listed(listed: str, host: str, is_believed: bool) -> None:
    conversation, seen = talk(listed)
    peer = conversation.connect(host)
    peer.send_bytes(TEXT + FRAME)
    assert bool(seen) == is_believed
    assert peer.channel.closed != is_believed


@pytest.mark.parametrize("listed", ["", PROXY])
@pytest.mark.parametrize("first", [*HEADERS.values(), b"P", b"\r", b"PROXY garbage", BINARY_BEGIN])
def test_a_stranger_may_name_nobody(listed: str, first: bytes, caplog: pytest.LogCaptureFixture) -> None:
    conversation, seen = talk(listed)
    peer = conversation.connect("192.0.2.66")
    with caplog.at_level(logging.WARNING):
        peer.send_bytes(first + FRAME if len(first) > 1 else first)
        peer.send_bytes(FRAME)
    assert caplog.messages == ["PROXY header refused"]
    facts = caplog.records[0].__dict__["facts"]
    assert facts["remote"].startswith("192.0.2.66:")
    assert facts["reason"] == "it is not in gateway.proxyProtocolAddresses"
    assert seen == []
    assert peer.channel.closed
    assert not peer.transport.connected


@pytest.mark.parametrize("first", [FRAME, b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00"])
def test_a_listed_address_has_to_send_a_header(first: bytes, caplog: pytest.LogCaptureFixture) -> None:
    conversation, seen = talk()
    peer = conversation.connect(PROXY)
    with caplog.at_level(logging.WARNING):
        peer.send_bytes(first)
    facts = caplog.records[0].__dict__["facts"]
    assert facts["reason"] == "it is in gateway.proxyProtocolAddresses and sent no header"
    assert seen == []
    assert peer.channel.closed


def test_others_are_served_beside_proxies() -> None:
    conversation, seen = talk()
    peer = conversation.connect("192.0.2.7")
    peer.send_bytes(FRAME)
    assert bodies(peer) == [b"asked"]
    assert seen[0][0].startswith("192.0.2.7:")


def test_a_second_header_is_no_request() -> None:
    conversation, seen = talk()
    peer = conversation.connect(PROXY)
    peer.send_bytes(TEXT + TEXT + FRAME)
    assert seen == []
    assert peer.channel.closed


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 192.0.2.9 10.0.0.1 40000 99999\r\n",
        b"PROXY TCP4 " + b"1" * 200,
        BINARY_BEGIN + b"\x21\x11\xff\xff",
        BINARY_BEGIN + b"\x21\x11\x00\x00",
        BINARY_BEGIN + b"\xff\xff\x00\x0c" + bytes(12),
    ],
)
def test_garbage_of_a_proxy_ends_its_connection(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    conversation, seen = talk()
    peer = conversation.connect(PROXY)
    with caplog.at_level(logging.WARNING):
        peer.send_bytes(data)
        peer.send_bytes(FRAME)
    assert caplog.messages == ["PROXY header refused"]
    assert seen == []
    assert peer.channel.closed
    assert conversation.server.incomplete_frames.total_bytes == 0


def test_a_slow_header_has_its_time_and_counts_as_an_incomplete_request(caplog: pytest.LogCaptureFixture) -> None:
    conversation, _ = talk()
    slow = conversation.connect(PROXY)
    header = binary(b"", command=0x20, family=0, more=bytes(MAX_HEADER_BYTES - 16))
    with caplog.at_level(logging.WARNING):
        for second in range(HEADER_SECONDS):
            assert not slow.channel.closed
            slow.send_bytes(header[second * 800 : (second + 1) * 800])
            assert conversation.server.incomplete_frames.total_bytes == (second + 1) * 800
            conversation.reactor.advance(1)
    assert slow.channel.closed
    assert slow.transport.disconnected
    assert conversation.server.incomplete_frames.total_bytes == 0
    assert caplog.records[0].__dict__["facts"]["reason"] == f"no whole PROXY header within {HEADER_SECONDS} s"


def test_a_header_in_time_leaves_no_timer() -> None:
    conversation, _ = talk()
    before = len(conversation.reactor.getDelayedCalls())
    for header, _ in GOOD:
        peer = conversation.connect(PROXY)
        peer.send_bytes(header)
        conversation.reactor.advance(HEADER_SECONDS + 1)
        assert not peer.channel.closed
        peer.leave()
    assert len(conversation.reactor.getDelayedCalls()) == before


@pytest.mark.parametrize("sent", [b"PROXY TCP4", TEXT, TEXT + b"\x00"])
def test_a_peer_that_leaves_within_its_header_or_behind_it_leaves_nothing(sent: bytes) -> None:
    conversation, _ = talk("192.0.2.7")
    before = len(conversation.reactor.getDelayedCalls())
    with nothing_stays():
        transport, far = connected(conversation.server, conversation.reactor)
        far.sendall(sent)
        transport.doRead()
        transport.connectionLost(failure_of(ConnectionDone("closed")))
        del transport
        far.close()
        conversation.reactor.advance(HEADER_SECONDS)
    assert conversation.server.incomplete_frames.total_bytes == 0
    assert len(conversation.reactor.getDelayedCalls()) == before
