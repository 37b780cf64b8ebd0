"""Calls to other servers: connect when needed, wait for answers, rest after failures."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as TimedOut

from gateway.remoting import client as client_module
from gateway.remoting.client import (
    CONNECT_TIMEOUT_S,
    FIRST_REST_S,
    LONGEST_REST_S,
    ConnectFailed,
    RemotingClient,
)
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.pending import CallTimeout, ChannelClosed
from gateway.remoting.protocol import RemotingProtocol
from gateway.settings import Address
from gateway.tests.remoting.conversation import SETTINGS, Peer, failure_of, memory_reactor, outcome
from wire.codes import RequestCode
from wire.command import RemotingCommand

ADDRESS = Address("192.0.2.1", 9876)
CODE = RequestCode.GET_BROKER_CLUSTER_INFO


class Network:
    """A client on a memory reactor, and the servers it finds."""

    def __init__(self) -> None:
        self.reactor = memory_reactor()
        self.client = RemotingClient(self.reactor, Dispatch(), SETTINGS)

    @property
    def attempts(self) -> int:
        return len(self.reactor.tcpClients)

    def accept(self) -> Peer:
        """The last attempt succeeds."""
        host, port, factory, timeout, _ = self.reactor.tcpClients[-1]
        assert timeout == CONNECT_TIMEOUT_S
        protocol = factory.buildProtocol(IPv4Address("TCP", host, port))
        assert isinstance(protocol, RemotingProtocol)
        return Peer(protocol, (host, port), ("10.9.9.9", 40_000))

    def refuse(self, error: Exception | None = None) -> None:
        """The last attempt fails."""
        if error is None:
            error = Refused(errno.ECONNREFUSED)  # type: ignore[no-untyped-call]
        self.reactor.tcpClients[-1][2].clientConnectionFailed(self.reactor.connectors[-1], failure_of(error))

    def call(self, **rest: Any) -> list[Any]:
        return outcome(self.client.call(ADDRESS, CODE, **rest))


def answer_all(network: Network, server: Peer) -> None:
    network.reactor.advance(0)
    server.send(*(command.response(0, body=command.body) for command in server.received()))


def test_the_first_call_connects_and_later_ones_use_the_same_connection() -> None:
    network = Network()
    first = network.call(body=b"one")
    assert (network.attempts, first) == (1, [])
    server = network.accept()
    second = network.call(body=b"two")
    answer_all(network, server)
    assert network.attempts == 1
    assert [first[0].body, second[0].body] == [b"one", b"two"]


def test_calls_made_while_connecting_share_the_attempt() -> None:
    network = Network()
    calls = [network.call(), network.call()]
    server = network.accept()
    answer_all(network, server)
    assert network.attempts == 1
    assert all(isinstance(seen[0], RemotingCommand) for seen in calls)


def test_the_channel_tells_our_own_address_on_the_way_there() -> None:
    network = Network()
    seen = outcome(network.client.channel(ADDRESS))
    network.accept()
    assert seen[0].local == ("10.9.9.9", 40_000)


def test_a_refused_connection_fails_the_call_in_words() -> None:
    network = Network()
    seen = network.call()
    network.refuse()
    assert isinstance(seen[0], ConnectFailed)
    assert str(seen[0]) == "cannot connect to 192.0.2.1:9876: Connection refused"


def test_a_failure_without_system_error_is_told_too() -> None:
    network = Network()
    seen = network.call()
    network.refuse(TimedOut())  # type: ignore[no-untyped-call]
    assert str(seen[0]).startswith("cannot connect to 192.0.2.1:9876: User timeout")


def test_after_a_failure_the_address_rests_twice_as_long_each_time() -> None:
    network = Network()
    rest_s = FIRST_REST_S
    for attempt in range(1, 9):
        network.call()
        assert network.attempts == attempt
        network.refuse()
        network.reactor.advance(rest_s - 0.01)
        assert isinstance(network.call()[0], ConnectFailed)
        assert network.attempts == attempt
        network.reactor.advance(0.02)
        rest_s = min(rest_s * 2, LONGEST_REST_S)


def test_a_success_ends_the_rests() -> None:
    network = Network()
    network.call()
    network.refuse()
    network.reactor.advance(FIRST_REST_S)
    network.call()
    network.accept().leave()
    network.call()
    assert network.attempts == 3


def test_a_lost_connection_fails_its_calls_and_is_made_again() -> None:
    network = Network()
    seen = network.call()
    network.accept().leave()
    assert isinstance(seen[0], ChannelClosed)
    again = network.call()
    answer_all(network, network.accept())
    assert isinstance(again[0], RemotingCommand)


def test_a_server_that_does_not_answer_times_out() -> None:
    network = Network()
    seen = network.call(timeout_s=2)
    network.accept()
    network.reactor.advance(2)
    assert isinstance(seen[0], CallTimeout)


def test_a_request_from_the_server_is_answered() -> None:
    network = Network()
    network.call()
    server = network.accept()
    network.reactor.advance(0)
    server.received()
    assert server.ask(4711).remark == " request type 4711 not supported"


def test_a_stop_closes_connections_and_ends_attempts() -> None:
    network = Network()
    network.call()
    server = network.accept()
    outcome(network.client.channel(Address("192.0.2.2", 9876)))
    network.client.stopService()
    assert server.channel.closed
    assert network.reactor.connectors[-1]._disconnected


def test_addresses_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_ADDRESSES", 1)
    network = Network()
    network.call()
    (refused,) = outcome(network.client.channel(Address("192.0.2.2", 9876)))
    assert isinstance(refused, ConnectFailed)
