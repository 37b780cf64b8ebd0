"""The pages over TLS: the certificate of the other ports, by a setting of its own."""

from __future__ import annotations

import logging
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.pages.answers import Answered, text_answer
from gateway.broker.pages.connection import HEAD_SECONDS, LINGER_SECONDS
from gateway.broker.pages.head import MAX_HEAD_BYTES
from gateway.settings import RemotingSettings
from gateway.settings.tls import TlsMode
from gateway.tests.broker.pages.asker import Asker, Served
from gateway.tests.remoting.tls.speaking import Signed, files_of, signed, trusting, verifying

GET = b"GET /healthz HTTP/1.1\r\n\r\n"


def ok(answered: Answered) -> None:
    answered(text_answer(HTTPStatus.OK, "x" * 40_000))


def served(mode: TlsMode = TlsMode.ENFORCING, **settings: Any) -> Served:
    return Served(settings=RemotingSettings(tls_pages_mode=mode, **settings), healthz=ok)


class Scraper:
    """A peer that asks over TLS."""

    def __init__(self, asker: Asker, context: ssl.SSLContext) -> None:
        self.asker = asker
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        for _ in range(4):
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._pump()
        self._pump()

    def ask(self, request: bytes = GET) -> None:
        """Send a request."""
        self._tls.write(request)
        self._pump()

    def answer(self) -> bytes:
        """What came back until now."""
        found = b""
        try:
            while data := self._tls.read(65_536):
                found += data
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return found

    def _pump(self) -> None:
        if data := self._outgoing.read():
            self.asker.send(data)
        self._incoming.write(self.asker.received)
        self.asker.transport.writes.clear()


def scraper(served: Served, context: ssl.SSLContext | None = None) -> Scraper:
    return Scraper(served.asker(), context or trusting())


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
def test_a_scraper_asks_again_and_again_over_one_connection(mode: TlsMode) -> None:
    peer = scraper(served(mode))
    for _ in range(3):
        peer.ask()
        head, _, body = peer.answer().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert body == b"x" * 40_000 + b"\n"


def test_the_certificate_is_the_servers(tmp_path: Path) -> None:
    authority = signed(tmp_path, "authority")
    own: Signed = signed(tmp_path, "own", by=authority)
    page = served(**files_of(own), tls_mode=TlsMode.DISABLED)
    peer = scraper(page, verifying(authority))
    peer.ask()
    assert peer.answer().startswith(b"HTTP/1.1 200 OK")
    page.first_byte.start()
    renewed = signed(tmp_path, "own", by=authority)
    page.reactor.advance(1)
    shown = scraper(page, verifying(authority))._tls.getpeercert()
    assert shown is not None
    assert int(str(shown["serialNumber"]), 16) == renewed.certificate.serial_number
    peer.ask()
    assert peer.answer().startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("mode", "first", "event"),
    [
        (TlsMode.ENFORCING, GET, "plain connection refused: only TLS is served"),
        (TlsMode.DISABLED, b"\x16\x03\x01\x02\x00", "TLS connection refused: TLS is switched off"),
    ],
)
def test_the_other_language_is_refused_with_advice(
    mode: TlsMode, first: bytes, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    page = served(mode)
    peer = page.asker()
    with caplog.at_level(logging.WARNING):
        peer.send(first)
    assert caplog.messages == [event]
    assert "gateway.metricsTlsMode=permissive" in caplog.records[0].__dict__["facts"]["advice"]
    assert not peer.is_connected
    assert peer.received == b""
    assert page.port.connections == 0


def test_plain_is_answered_where_both_are_served() -> None:
    peer = served(TlsMode.PERMISSIVE).asker()
    peer.send(GET)
    assert peer.status == 200


def test_a_refusal_reaches_the_peer_before_the_connection_ends() -> None:
    page = served()
    peer = scraper(page)
    peer.ask(b"GET /" + b"a" * MAX_HEAD_BYTES)
    assert b" 431 " in peer.answer().splitlines()[0]
    assert peer.asker.transport.is_half_closed
    page.reactor.advance(LINGER_SECONDS)
    assert page.port.connections == 0


def test_a_handshake_that_stops_ends_with_the_time_of_a_head_and_leaves_nothing() -> None:
    page = served(tls_handshake_timeout_ms=60_000)
    peer = page.asker()
    peer.send(b"\x16\x03\x01")
    page.reactor.advance(HEAD_SECONDS)
    assert not peer.is_connected
    assert page.reactor.getDelayedCalls() == []


def test_garbage_inside_ends_the_connection() -> None:
    page = served()
    peer = scraper(page)
    peer.asker.send(b"garbage" * 10)
    assert not peer.asker.is_connected
    assert page.port.connections == 0
