"""The decision by the first byte of a connection, in each mode."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from gateway.settings.tls import ClientCertificates, TlsMode
from gateway.tests.remoting.conversation import Conversation
from gateway.tests.remoting.tls.speaking import CODE, TlsPeer, echoing, encrypted, trusting

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
ENFORCING: dict[str, Any] = {"tls_mode": TlsMode.ENFORCING}
DISABLED: dict[str, Any] = {"tls_mode": TlsMode.DISABLED}


def test_a_permissive_port_speaks_both() -> None:
    dispatch, seen = echoing()
    conversation = Conversation(dispatch)
    plain, secret = conversation.connect(), encrypted(conversation)
    assert plain.ask(CODE, body=b"open").body == b"open"
    secret.send(b"secret")
    assert secret.received() == [b"secret"]
    assert plain.ask(CODE, body=b"open still").body == b"open still"
    assert seen == [b"open", b"secret", b"open still"]


def test_a_plain_connection_is_looked_at_once() -> None:
    conversation = Conversation(echoing()[0])
    peer = conversation.connect()
    assert peer.ask(CODE, body=b"1").body == b"1"
    later = peer.protocol.dataReceived
    assert type(later.__self__).__name__ == "Input"  # type: ignore[attr-defined]
    assert peer.ask(CODE, body=b"2").body == b"2"
    assert peer.protocol.dataReceived == later


@pytest.mark.parametrize(("mode", "is_told"), [("permissive", True), ("enforcing", False), ("disabled", True)])
def test_who_demands_certificates_of_clients_and_lets_in_plain_ones_is_told(
    mode: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        Conversation(echoing()[0], tls_mode=TlsMode(mode), tls_client_certificates=ClientCertificates.REQUIRE)
        Conversation(echoing()[0], tls_mode=TlsMode(mode), tls_client_certificates=ClientCertificates.OPTIONAL)
    assert caplog.messages == ["plain connections are let in without a certificate of the client"] * is_told


def test_an_enforcing_port_carries_out_no_plain_request(caplog: pytest.LogCaptureFixture) -> None:
    dispatch, seen = echoing()
    conversation = Conversation(dispatch, **ENFORCING)
    with caplog.at_level(logging.WARNING):
        for _ in range(1_000):
            peer = conversation.connect()
            assert peer.ask_all(CODE, body=b"open") == []
            assert peer.ask_all(CODE, body=b"again") == []
            assert peer.channel.closed
            assert not peer.transport.connected
    assert seen == []
    assert "plain connection refused: only TLS is served" in caplog.messages
    facts = caplog.records[0].__dict__["facts"]
    assert "tls.enable=true" in facts["advice"]
    secret = encrypted(conversation)
    secret.send(b"secret")
    assert secret.received() == [b"secret"]


def test_a_hello_where_tls_is_switched_off_ends_the_connection_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    conversation = Conversation(echoing()[0], **DISABLED)
    peer, other = conversation.connect(), conversation.connect()
    with caplog.at_level(logging.WARNING):
        peer.send_bytes(HELLO)
        peer.send_bytes(HELLO)
    assert peer.channel.closed
    assert peer.transport.writes == []
    assert caplog.messages == ["TLS connection refused: TLS is switched off"]
    assert "tls.server.mode=permissive" in caplog.records[0].__dict__["facts"]["advice"]
    assert other.ask(CODE, body=b"still here").body == b"still here"


def test_a_hello_in_single_bytes_is_understood() -> None:
    conversation = Conversation(echoing()[0])
    peer = TlsPeer(conversation.connect(), trusting())
    with pytest.raises(OSError, match="did not complete"):
        peer.tls.do_handshake()
    for byte in peer.made():
        peer.peer.send_bytes(bytes([byte]))
    peer.take()
    peer.handshake()
    peer.send(b"slow")
    assert peer.received() == [b"slow"]


def test_bytes_of_a_connection_that_was_closed_begin_nothing() -> None:
    conversation = Conversation(echoing()[0])
    peer = conversation.connect()
    peer.channel.close("enough")
    peer.send_bytes(HELLO)
    assert peer.transport.writes == []
    assert conversation.server.incomplete_frames.total_bytes == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, "permissive (self-signed)"), (ENFORCING, "enforcing (self-signed)"), (DISABLED, "disabled")],
)
def test_the_start_says_what_each_port_serves(
    settings: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        Conversation(echoing()[0], **settings)
    assert caplog.records[0].__dict__["facts"]["tls"] == said


def test_a_server_without_tls_clients_does_not_load_its_libraries() -> None:
    code = (
        "import sys\n"
        "from gateway.cli.serving.late_modules import load_twisted\n"
        "load_twisted()\n"
        "from gateway.tests.remoting.conversation import Conversation\n"
        "from gateway.tests.remoting.test_protocol import CODE, echoing\n"
        "peer = Conversation(echoing()).connect()\n"
        "assert peer.ask(CODE, body=b'plain').body == b'plain'\n"
        "assert not {'OpenSSL', 'cryptography', '_cffi_backend'} & set(sys.modules)\n"
        "Conversation(echoing()).connect().send_bytes(b'\\x16')\n"
        "assert 'OpenSSL' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
