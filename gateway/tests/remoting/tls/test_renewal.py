"""A certificate that is renewed while the server runs."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from gateway.in_thread import Failed, in_this_thread
from gateway.remoting.server import RemotingServer
from gateway.remoting.tls.renewal import LOOKS_EVERY_S
from gateway.settings import RemotingSettings
from gateway.settings.tls import ClientCertificates
from gateway.tests.remoting.conversation import Conversation
from gateway.tests.remoting.tls.speaking import (
    Signed,
    TlsPeer,
    echoing,
    encrypted,
    files_of,
    signed,
    trusting,
    verifying,
)

WITHIN_S = 1.0


def serial_of(peer: TlsPeer) -> int:
    shown = peer.tls.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


@pytest.fixture
def first(tmp_path: Path) -> Signed:
    return signed(tmp_path, "server")


@pytest.fixture
def talk(first: Signed) -> Conversation:
    return Conversation(echoing()[0], **files_of(first))


def test_new_connections_get_the_new_certificate_and_open_ones_go_on(
    talk: Conversation, tmp_path: Path, first: Signed
) -> None:
    before = encrypted(talk)
    renewed = signed(tmp_path, "server")
    talk.reactor.advance(WITHIN_S)
    after = encrypted(talk)
    assert serial_of(before) == first.certificate.serial_number
    assert serial_of(after) == renewed.certificate.serial_number
    for peer in (before, after):
        peer.send(b"asked")
        assert peer.received() == [b"asked"]


def test_a_new_certificate_for_the_same_key_is_used(talk: Conversation, tmp_path: Path, first: Signed) -> None:
    renewed = signed(tmp_path, "server", key=first.key)
    talk.reactor.advance(WITHIN_S)
    assert serial_of(encrypted(talk)) == renewed.certificate.serial_number


def test_files_that_change_one_after_the_other_are_used_when_they_fit(
    talk: Conversation, tmp_path: Path, first: Signed, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    renewed = signed(other, "server")
    renewed.certificate_file.replace(first.certificate_file)
    with caplog.at_level(logging.INFO):
        talk.reactor.advance(LOOKS_EVERY_S)
        assert serial_of(encrypted(talk)) == first.certificate.serial_number
        renewed.key_file.replace(first.key_file)
        talk.reactor.advance(LOOKS_EVERY_S)
        talk.reactor.advance(LOOKS_EVERY_S)
    assert serial_of(encrypted(talk)) == renewed.certificate.serial_number
    assert [message for message in caplog.messages if "TLS" in message or "renewed" in message] == [
        "certificate renewed"
    ]


@pytest.mark.parametrize("fault", ["garbage", "gone", "half"])
def test_files_that_cannot_be_used_are_named_once_and_the_earlier_ones_stay(
    fault: str, talk: Conversation, tmp_path: Path, first: Signed, caplog: pytest.LogCaptureFixture
) -> None:
    content = first.certificate_file.read_bytes()
    if fault == "gone":
        first.certificate_file.unlink()
    else:
        first.certificate_file.write_bytes(b"no certificate" if fault == "garbage" else content[:100])
    with caplog.at_level(logging.WARNING):
        talk.reactor.pump([LOOKS_EVERY_S] * 20)
    assert caplog.messages == ["files of TLS changed and cannot be used; the earlier ones stay in use"]
    assert "tls.server.certPath" in caplog.records[0].__dict__["facts"]["fault"]
    assert serial_of(encrypted(talk)) == first.certificate.serial_number
    renewed = signed(tmp_path, "server")
    talk.reactor.advance(WITHIN_S)
    assert serial_of(encrypted(talk)) == renewed.certificate.serial_number


def test_new_authorities_judge_the_clients_that_come_later(tmp_path: Path, first: Signed) -> None:
    old, new = signed(tmp_path, "old"), signed(tmp_path, "new")
    friend = signed(tmp_path, "friend", by=new)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.certificate_file.read_bytes())
    talk = Conversation(
        echoing()[0],
        **files_of(first),
        tls_authorities=str(trusted),
        tls_client_certificates=ClientCertificates.REQUIRE,
    )

    def is_served() -> bool:
        peer = TlsPeer(talk.connect(), verifying(first, friend))
        try:
            peer.handshake().send(b"asked")
            return peer.received() == [b"asked"]
        except ssl.SSLError:
            return False

    assert not is_served()
    trusted.write_bytes(new.certificate_file.read_bytes())
    talk.reactor.advance(WITHIN_S)
    assert is_served()


def test_servers_of_one_process_read_the_files_once_and_tell_a_fault_once(
    talk: Conversation, tmp_path: Path, first: Signed, caplog: pytest.LogCaptureFixture
) -> None:
    other = RemotingServer(talk.reactor, echoing()[0], [("127.0.0.1", 10909)], talk.settings, beside=talk.server)
    other.startService()
    assert other.tls is talk.server.tls
    first.certificate_file.write_bytes(b"no certificate")
    with caplog.at_level(logging.INFO):
        talk.reactor.pump([LOOKS_EVERY_S] * 20)
    assert caplog.messages == ["files of TLS changed and cannot be used; the earlier ones stay in use"]
    other.stopService()
    caplog.clear()
    renewed = signed(tmp_path, "server")
    with caplog.at_level(logging.INFO):
        talk.reactor.advance(WITHIN_S)
    assert caplog.messages == ["certificate renewed"]
    assert serial_of(encrypted(talk)) == renewed.certificate.serial_number
    talk.server.stopService()
    assert "Renewal" not in str(talk.reactor.getDelayedCalls())


def test_a_stopped_server_looks_at_nothing(talk: Conversation) -> None:
    talk.server.stopService()
    talk.reactor.advance(WITHIN_S)
    assert "Renewal" not in str(talk.reactor.getDelayedCalls())


def test_a_server_without_files_looks_at_nothing() -> None:
    talk = Conversation(echoing()[0])
    encrypted(talk, trusting())
    assert "Renewal" not in str(talk.reactor.getDelayedCalls())


def test_a_stop_during_a_look_ends_the_looks(first: Signed, tmp_path: Path) -> None:
    waiting: list[Callable[[], None]] = []

    def later(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        waiting.append(lambda: in_this_thread(work, done))

    talk = Conversation(echoing()[0])
    server = RemotingServer(talk.reactor, echoing()[0], [], RemotingSettings(**files_of(first)), in_thread=later)
    server.startService()
    talk.reactor.advance(WITHIN_S)
    signed(tmp_path, "server")
    server.stopService()
    [look] = waiting
    look()
    talk.reactor.advance(WITHIN_S)
    assert len(waiting) == 1


def test_a_look_that_fails_is_followed_by_others(first: Signed, caplog: pytest.LogCaptureFixture) -> None:
    looks: list[Callable[[Any], None]] = []
    talk = Conversation(echoing()[0])
    server = RemotingServer(
        talk.reactor,
        echoing()[0],
        [],
        RemotingSettings(**files_of(first)),
        in_thread=lambda work, done: looks.append(done),
    )
    server.startService()
    talk.reactor.advance(WITHIN_S)
    with caplog.at_level(logging.ERROR):
        looks[0](Failed(RuntimeError("no thread")))
    talk.reactor.advance(WITHIN_S)
    assert len(looks) == 2
    assert caplog.messages == ["files of TLS not looked at"]
