"""A name server on a memory reactor, with peers that talk to it."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address

from gateway.in_thread import in_this_thread
from gateway.nameserver.service import NameServer
from gateway.remoting.protocol import RemotingProtocol
from gateway.settings import Settings
from gateway.tests.nameserver.registrations import topics
from gateway.tests.remoting.conversation import SERVER_HOST, Peer, memory_reactor
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.headers.name_server import RegisterBrokerRequest

PORT = 9876


class RunningNameServer:
    """Started; its clock is ``now_ms``, moved with the reactor's by ``advance``."""

    def __init__(self, directory: Path, *, near_brokers: bool = False, **settings: Any) -> None:
        self.now_ms = 1_700_000_000_000
        self.reactor = memory_reactor()
        values = replace(Settings(), kv_config_path=str(directory / "kvConfig.json"), **settings)
        self.service = NameServer(values, lambda: self.now_ms, self.reactor, in_this_thread, near_brokers=near_brokers)
        self.service.startService()
        self._next_port = 50_000

    def connect(self, host: str = "192.0.2.7", reached_at: str = SERVER_HOST) -> Peer:
        """A new connection to it."""
        self._next_port += 1
        remote = (host, self._next_port)
        protocol = self.reactor.tcpServers[0][1].buildProtocol(IPv4Address("TCP", *remote))
        assert isinstance(protocol, RemotingProtocol)
        return Peer(protocol, remote, (reached_at, PORT))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ms += int(seconds * 1_000)
        self.reactor.advance(seconds)


def register(
    peer: Peer,
    *names: str,
    table: dict[str, TopicConfig] | None = None,
    counter: int = 1,
    version: int = 513,
    compressed: bool = False,
    server: RunningNameServer | None = None,
    **fields: Any,
) -> RemotingCommand:
    """Register ``broker-a`` (or what ``fields`` say) with these topics, as an Apache broker does.

    :param server: needed for many topics: lets its turns pass until it has read them.
    """
    body = RegisterBrokerBody(
        data_version=DataVersion(counter=counter),
        topic_config_table=topics(*names) if table is None else table,
    ).build(compressed, version)
    values: dict[str, Any] = {
        "broker_name": "broker-a",
        "broker_addr": "192.0.2.1:10911",
        "cluster_name": "DefaultCluster",
        "ha_server_addr": "192.0.2.1:10912",
        "broker_id": 0,
        "compressed": compressed,
        "body_crc32": zlib.crc32(body) & 0x7FFFFFFF,
    }
    values.update(fields)
    answers = peer.ask_all(RequestCode.REGISTER_BROKER, RegisterBrokerRequest(**values), body, version=version)
    while server is not None and not answers:
        server.advance(0)
        answers = peer.received()
    (answer,) = answers
    return answer
