"""Our own calls over TLS: a client and a server of ours, whose bytes a test carries to and fro."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionLost

from gateway.errors import SettingsError
from gateway.remoting.channel import Channel
from gateway.remoting.client import LONGEST_REST_S, ConnectFailed, RemotingClient
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.protocol import RemotingProtocol
from gateway.settings import Address, RemotingSettings
from gateway.settings.tls import ClientCertificates, OwnCalls, TlsMode
from gateway.tests.remoting.conversation import Conversation, MemoryTransport, Peer, failure_of, outcome
from gateway.tests.remoting.test_given_back import NumberedTransport, nothing_stays, pair
from gateway.tests.remoting.tls.speaking import CODE, echoing, files_of, signed

SERVER = Address("192.0.2.1", 9_876)
TRUE: dict[str, Any] = {"tls_own_calls": OwnCalls.TRUE}


class Wire:
    """A client's connection to a server; both are real, the bytes between them are moved by hand."""

    def __init__(self, talk: Conversation, **settings: Any) -> None:
        self.talk = talk
        self.client = RemotingClient(talk.reactor, Dispatch(), RemotingSettings(**settings))
        self.client.startService()
        self.connect()

    def connect(self) -> None:
        """Make a connection."""
        self.opened = outcome(self.client.channel(SERVER))
        self.near = cast(Any, self.talk.reactor.tcpClients.pop()[2].buildProtocol(None))
        self.transport = MemoryTransport(IPv4Address("TCP", "192.0.2.7", 50_000), IPv4Address("TCP", *SERVER))
        self.transport.protocol = cast(RemotingProtocol, self.near)
        self.far: Peer = self.talk.connect()
        self.near.makeConnection(self.transport)
        self.carry()

    def again(self) -> None:
        """Make a new connection, after the address has rested."""
        self.near.transport.loseConnection()
        self.talk.reactor.advance(LONGEST_REST_S)
        self.connect()

    def carry(self) -> None:
        """Move bytes until both are silent."""
        while self.transport.writes or self.far.transport.writes:
            sent, self.transport.writes = b"".join(self.transport.writes), []
            if sent:
                self.far.send_bytes(sent)
            answered, self.far.transport.writes = b"".join(self.far.transport.writes), []
            if answered:
                self.near.dataReceived(answered)
        if not self.far.transport.connected:
            self.transport.loseConnection()
            self.talk.reactor.advance(0)

    def asks(self) -> bytes:
        """The body of the answer to a call."""
        [channel] = self.opened
        assert isinstance(channel, Channel), channel
        seen = outcome(channel.call(CODE, body=b"called"))
        self.talk.reactor.advance(0)
        self.carry()
        return bytes(seen[0].body)


def enforcing(**settings: Any) -> Conversation:
    return Conversation(echoing()[0], tls_mode=TlsMode.ENFORCING, **settings)


def test_calls_are_encrypted_and_answered() -> None:
    assert Wire(enforcing(), **TRUE).asks() == b"called"


@pytest.mark.parametrize(
    ("mode", "own", "encrypted"),
    [
        (TlsMode.ENFORCING, OwnCalls.AUTO, True),
        (TlsMode.PERMISSIVE, OwnCalls.AUTO, False),
        (TlsMode.DISABLED, OwnCalls.TRUE, True),
        (TlsMode.ENFORCING, OwnCalls.FALSE, False),
    ],
)
def test_the_mode_decides_unless_told_otherwise(mode: TlsMode, own: OwnCalls, encrypted: bool) -> None:
    assert RemotingSettings(tls_mode=mode, tls_own_calls=own).calls_with_tls == encrypted


def test_a_call_waits_for_the_handshake(tmp_path: Path) -> None:
    talk = enforcing()
    client = RemotingClient(talk.reactor, Dispatch(), RemotingSettings(**TRUE))
    opened = outcome(client.channel(SERVER))
    protocol: Any = talk.reactor.tcpClients.pop()[2].buildProtocol(None)
    transport = MemoryTransport(IPv4Address("TCP", "192.0.2.7", 1), IPv4Address("TCP", *SERVER))
    transport.protocol = protocol
    protocol.makeConnection(transport)
    assert transport.writes
    assert opened == []
    talk.reactor.advance(11)
    talk.reactor.advance(0)
    assert transport.disconnected
    assert isinstance(opened[0], ConnectFailed)


def test_a_server_that_speaks_plain_is_named_and_rests(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        wire = Wire(Conversation(echoing()[0], tls_mode=TlsMode.DISABLED), **TRUE)
    [error] = wire.opened
    assert isinstance(error, ConnectFailed)
    assert str(error) == f"cannot connect to {SERVER}: the TLS handshake failed, does it speak TLS? (tls.enable)"
    [again] = outcome(wire.client.channel(SERVER))
    assert isinstance(again, ConnectFailed)


def test_certificates_are_verified_on_both_sides(tmp_path: Path) -> None:
    ours, others = signed(tmp_path, "ours"), signed(tmp_path, "others")
    server, caller = signed(tmp_path, "server", by=ours), signed(tmp_path, "caller", by=ours)
    talk = enforcing(
        **files_of(server),
        tls_authorities=str(ours.certificate_file),
        tls_client_certificates=ClientCertificates.REQUIRE,
    )
    shown = {"tls_own_certificate": str(caller.certificate_file), "tls_own_key": str(caller.key_file)}
    assert Wire(talk, **TRUE, **shown, tls_trusted_servers=str(ours.certificate_file)).asks() == b"called"
    wrong = Wire(talk, **TRUE, **shown, tls_trusted_servers=str(others.certificate_file))
    assert isinstance(wrong.opened[0], ConnectFailed)
    careless = Wire(talk, **TRUE, **shown, tls_trusted_servers=str(others.certificate_file), tls_verify_servers=False)
    assert careless.asks() == b"called"


def test_files_that_cannot_be_used_end_the_start(tmp_path: Path) -> None:
    talk = enforcing()
    own = signed(tmp_path, "own")
    faults: list[tuple[dict[str, Any], str]] = [
        ({"tls_trusted_servers": "/no/ca.pem"}, "tls.client.trustCertPath=/no/ca.pem: cannot read"),
        ({"tls_own_certificate": "/no/me.pem", "tls_own_key": str(own.key_file)}, "tls.client.certPath=/no/me.pem"),
        ({"tls_own_certificate": str(own.certificate_file), "tls_own_key": "/no/key"}, "tls.client.keyPath=/no/key"),
    ]
    for settings, said in faults:
        with pytest.raises(SettingsError, match=said):
            RemotingClient(talk.reactor, Dispatch(), RemotingSettings(**TRUE, **settings))
        RemotingClient(talk.reactor, Dispatch(), RemotingSettings(**settings))  # nobody uses them


def test_renewed_files_are_used_by_the_next_connection_and_the_open_one_goes_on(tmp_path: Path) -> None:
    old, new = signed(tmp_path, "old"), signed(tmp_path, "new")
    caller, server = signed(tmp_path, "caller", by=old), signed(tmp_path, "server", by=old)
    asking = {"tls_client_certificates": ClientCertificates.REQUIRE}
    first = enforcing(**files_of(server), tls_authorities=str(old.certificate_file), **asking)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.certificate_file.read_bytes())
    wire = Wire(
        first,
        **TRUE,
        tls_trusted_servers=str(trusted),
        tls_own_certificate=str(caller.certificate_file),
        tls_own_key=str(caller.key_file),
    )
    assert wire.asks() == b"called"
    trusted.write_bytes(new.certificate_file.read_bytes())
    signed(tmp_path, "caller", by=new)
    first.reactor.advance(1)
    assert wire.asks() == b"called"
    other = tmp_path / "renewed"
    other.mkdir()
    renewed = files_of(signed(other, "server", by=new))
    wire.talk = Conversation(
        echoing()[0],
        first.reactor,
        tls_mode=TlsMode.ENFORCING,
        tls_authorities=str(new.certificate_file),
        **renewed,
        **asking,
    )
    wire.talk.reactor.tcpServers.reverse()
    wire.again()
    assert wire.asks() == b"called"
    wire.client.stopService()
    wire.talk.server.stopService()
    first.server.stopService()
    first.reactor.advance(1)
    assert "Renewal" not in str(first.reactor.getDelayedCalls())


def test_renewed_files_that_cannot_be_used_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = signed(tmp_path, "authority")
    server = signed(tmp_path, "server", by=authority)
    wire = Wire(enforcing(**files_of(server)), **TRUE, tls_trusted_servers=str(authority.certificate_file))
    authority.certificate_file.write_bytes(b"no certificate")
    with caplog.at_level(logging.WARNING):
        wire.talk.reactor.pump([0.5] * 6)
    assert caplog.messages == ["files of TLS changed and cannot be used; the earlier ones stay in use"]
    assert wire.asks() == b"called"
    wire.again()
    assert wire.asks() == b"called"


@pytest.mark.parametrize(
    ("more", "begun"),
    [({}, nullcontext()), ({"incomplete_frame_bytes_limit": 1}, pytest.raises(ConnectionResetError))],
    ids=["does not end", "finds no room"],
)
def test_a_call_whose_handshake_fails_leaves_nothing(
    more: dict[str, Any], begun: AbstractContextManager[object]
) -> None:
    reactor = enforcing().reactor
    client = RemotingClient(reactor, Dispatch(), RemotingSettings(**TRUE, **more))
    with nothing_stays():
        seen = outcome(client.channel(SERVER))
        factory = reactor.tcpClients.pop()[2]
        near, far = pair()
        protocol: Any = factory.buildProtocol(None)
        transport: Any = NumberedTransport(near, protocol, reactor)
        transport.connected = 1
        protocol.makeConnection(transport)
        reactor.advance(0)
        with begun:
            assert far.recv(3)[:1] == b"\x16"
            assert seen == []
            transport.connectionLost(failure_of(ConnectionLost("gone")))
        reactor.advance(0)
        assert isinstance(seen[0], ConnectFailed)
        seen.clear()
        del transport, protocol, factory
        far.close()
        reactor.advance(60)
        client._peers.clear()
