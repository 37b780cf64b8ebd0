"""Ports, limits and the end of a server."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock

from gateway.errors import GatewayError
from gateway.remoting import descriptors
from gateway.remoting import server as server_module
from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.server import RemotingServer
from gateway.tests.remoting.conversation import SETTINGS, Conversation, MemoryTransport, request
from wire.codes import RequestCode, ResponseCode

CODE = RequestCode.GET_BROKER_CLUSTER_INFO


class Ports(MemoryReactorClock):
    """Port 0 becomes 40001, 40002 …; ports in ``taken`` cannot be listened on."""

    def __init__(self, taken: dict[int, OSError] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.taken = taken or {}
        self.stopped: list[int] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:  # noqa: N802
        if port in self.taken:
            raise CannotListenError(interface, port, self.taken[port])  # type: ignore[no-untyped-call]
        if port == 0:
            port = 40_001 + len(self.tcpServers)
        listening = super().listenTCP(port, factory, backlog, interface)  # type: ignore[no-untyped-call]

        def stop_listening() -> Deferred[None]:
            self.stopped.append(port)
            return succeed(None)

        listening.stopListening = stop_listening
        return listening


def server_on(reactor: Ports, *addresses: tuple[str, int]) -> RemotingServer:
    return RemotingServer(reactor, Dispatch(), addresses, SETTINGS)


def finished(deferred: Deferred[None]) -> bool:
    """Return whether a Deferred has fired, also after waiting for others."""
    return bool(deferred.called) and not deferred.paused


def test_every_address_is_listened_on_with_the_backlog_of_the_settings() -> None:
    reactor = Ports()
    server = server_on(reactor, ("127.0.0.1", 10911), ("127.0.0.1", 10909))
    assert server.ports == []
    server.startService()
    assert [(port, backlog, at) for port, _, backlog, at in reactor.tcpServers] == [
        (10911, 1024, "127.0.0.1"),
        (10909, 1024, "127.0.0.1"),
    ]
    assert server.ports == [10911, 10909]


def test_port_0_picks_a_free_port_that_can_be_asked_for() -> None:
    server = server_on(Ports(), ("127.0.0.1", 0))
    server.startService()
    assert server.ports == [40_001]


def test_a_port_in_use_is_named_and_nothing_else_stays_open() -> None:
    reactor = Ports({10909: OSError(errno.EADDRINUSE, "Address already in use")})
    server = server_on(reactor, ("127.0.0.1", 10911), ("127.0.0.1", 10909))
    with pytest.raises(GatewayError) as caught:
        server.startService()
    assert str(caught.value) == ("port 10909 on 127.0.0.1 is in use by another process, choose another with --port")
    assert reactor.stopped == [10911]
    assert server.ports == []


def test_another_reason_not_to_listen_is_told_in_the_systems_words() -> None:
    reactor = Ports({80: OSError(errno.EACCES, "Permission denied")})
    with pytest.raises(GatewayError, match=r"cannot listen on 127.0.0.1:80: Permission denied"):
        server_on(reactor, ("127.0.0.1", 80)).startService()


def test_connections_over_the_limit_are_closed_at_once_and_room_is_made_by_those_who_leave() -> None:
    conversation = Conversation(max_connections=2)
    first = conversation.connect()
    conversation.connect()
    factory = conversation.reactor.tcpServers[0][1]
    address = IPv4Address("TCP", "192.0.2.9", 1)
    assert factory.buildProtocol(address) is None
    first.leave()
    assert factory.buildProtocol(address) is not None


def accepted(conversation: Conversation, host: str, count: int) -> int:
    """Connect from a host; return how many connections were accepted."""
    factory = conversation.reactor.tcpServers[0][1]
    return sum(factory.buildProtocol(IPv4Address("TCP", host, port + 1)) is not None for port in range(count))


def test_one_host_cannot_take_all_connections() -> None:
    conversation = Conversation(max_connections=100, proxy_addresses="192.0.2.200")
    assert accepted(conversation, "192.0.2.9", 100) == 75
    assert accepted(conversation, "2001:db8::1", 10) + accepted(conversation, "2001:db8::2", 10) == 15
    assert [accepted(conversation, f"192.0.2.{host}", 2) for host in (10, 11)] == [1, 1]
    assert accepted(conversation, "::ffff:192.0.2.10", 1) == 0
    assert accepted(conversation, "192.0.2.200", 100) == 8, "a proxy brings the connections of others"
    assert accepted(conversation, "192.0.2.12", 1) == 0


def test_an_idle_connection_is_closed() -> None:
    conversation = Conversation(server_channel_max_idle_time_seconds=120)
    quiet, busy = conversation.connect(), conversation.connect()
    for _ in range(14):
        conversation.reactor.advance(10)
        busy.ask(CODE)
    assert quiet.channel.closed
    assert not busy.channel.closed
    conversation.reactor.pump([10] * 14)
    assert busy.channel.closed


def test_a_connection_that_is_only_written_to_is_not_idle() -> None:
    conversation = Conversation(server_channel_max_idle_time_seconds=120)
    peer = conversation.connect()
    for _ in range(20):
        conversation.reactor.advance(10)
        peer.channel.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        conversation.server.flush_group.flush()
    assert not peer.channel.closed


def test_a_stop_closes_ports_and_channels_and_waits_for_the_last_connection() -> None:
    conversation = Conversation()
    peers = [conversation.connect(), conversation.connect()]
    closing: list[str] = []
    for peer in peers:
        peer.transport.loseConnection = lambda: closing.append("one")  # type: ignore[method-assign]
    stopped = conversation.server.stopService()
    assert conversation.server.channels == {}
    assert len(closing) == 2
    assert not finished(stopped)
    for peer in peers:
        peer.protocol.connectionLost()
    assert finished(stopped)
    assert conversation.reactor.getDelayedCalls() == []


def test_a_server_without_connections_stops_at_once() -> None:
    assert finished(Conversation().server.stopService())


def test_a_server_that_never_started_can_be_stopped() -> None:
    assert finished(server_on(Ports(), ("127.0.0.1", 10911)).stopService())


def test_requests_under_way_are_answered_after_listening_has_stopped() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    assert finished(conversation.server.stop_listening())
    assert peer.ask(CODE).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_answers_made_outside_a_read_are_written_on_demand() -> None:
    conversation = Conversation()
    peers = [conversation.connect(), conversation.connect()]
    for peer in peers:
        peer.channel.send(request(CODE))
    conversation.server.flush_group.flush_soon()
    assert [peer.received() for peer in peers] == [[], []]
    conversation.reactor.advance(0)
    assert [len(peer.received()) for peer in peers] == [1, 1]


# -- descriptors ------------------------------------------------------------------------------------------------


def test_where_descriptors_run_short_the_longest_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation()
    early = [conversation.connect() for _ in range(server_module.ROOM_SHARE)]
    conversation.reactor.advance(1)
    late = [conversation.connect() for _ in range(server_module.ROOM_SHARE)]
    conversation.reactor.advance(server_module.IDLE_LEAST_S)
    early[0].ask_all(CODE)
    monkeypatch.setattr(server_module, "takes_reserve", lambda transport, reserved: reserved > 0)
    new = conversation.connect()
    assert not new.channel.closed
    assert [peer.channel.closed for peer in early] == [False, True, True, True] + [False] * 12
    assert not any(peer.channel.closed for peer in late)


def test_where_nobody_is_idle_the_new_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation()
    peers = [conversation.connect() for _ in range(3)]
    monkeypatch.setattr(server_module, "takes_reserve", lambda transport, reserved: True)
    refused = [conversation.connect() for _ in range(3)]
    assert all(peer.channel.closed for peer in refused)
    assert not any(peer.channel.closed for peer in peers)
    conversation.reactor.advance(server_module.IDLE_LEAST_S)
    assert not conversation.connect().channel.closed
    monkeypatch.setattr(server_module, "takes_reserve", lambda transport, reserved: False)
    assert not conversation.connect().channel.closed


@pytest.mark.parametrize(
    ("limit", "number", "takes"),
    [(100, 49, False), (100, 50, True), (4_000, 2_975, False), (4_000, 2_976, True), (None, 1 << 20, False)],
)
def test_the_last_descriptors_are_for_files(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, number: int, takes: bool
) -> None:
    class Handle:
        def fileno(self) -> int:
            return number

    class Transport(MemoryTransport):
        def getHandle(self) -> Handle:  # noqa: N802 (Twisted's name)
            return Handle()

    monkeypatch.setattr(descriptors, "open_files_limit", lambda: limit)
    assert descriptors.takes_reserve(Transport(), 1_024) is takes
    assert not descriptors.takes_reserve(MemoryTransport(), 1_024)


def test_a_request_that_needs_a_file_where_none_can_be_opened_is_refused_as_busy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dispatch = Dispatch()

    def open_file(_asked: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "/data/index/1")

    dispatch.answers_directly(CODE, open_file, EVERYBODY)
    answer = Conversation(dispatch).connect().ask(CODE)
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert "/data/index/1" in (answer.remark or "")
    assert not any(record.exc_info for record in caplog.records)
