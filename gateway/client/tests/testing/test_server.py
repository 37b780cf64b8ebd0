"""The gateway as a child process: ready when it says so, gone when it was stopped, with its data when it was killed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.client import Message, Producer
from gateway.client.blocking.admin import AdminClient
from gateway.client.testing.server import GatewayServer, ServerNotStarted


def reachable(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def test_a_server_is_ready_keeps_its_data_over_a_crash_and_leaves_nothing() -> None:
    with GatewayServer() as server:
        addresses = (server.nameserver, server.broker)
        assert all(map(reachable, addresses))
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.topics.create("orders", queues=1)
        with Producer("p", namesrv=server.nameserver) as producer:
            producer.send(Message("orders", b"kept"))
        first = server.pid
        server.kill()
        assert not reachable(server.broker)
        server.start()
        assert (server.nameserver, server.broker) == addresses, "clients find it again"
        assert server.pid != first
        with AdminClient(namesrv=server.nameserver) as admin:
            (queue,) = admin.topics.stats("orders")
            assert admin.messages.by_offset(queue, 0).body == b"kept"
        directory = server.data.parent
        assert directory.exists()
    assert not any(map(reachable, addresses))
    assert not directory.exists()
    server.stop()


def test_a_directory_that_is_given_stays(tmp_path: Path) -> None:
    with GatewayServer(tmp_path / "data") as server:
        assert server.data == tmp_path / "data"
    assert (tmp_path / "data").is_dir()
    assert (tmp_path / "data.log").is_file()


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    server = GatewayServer(tmp_path / "data", settings={"flushDiskType": "NEVER"})
    with pytest.raises(ServerNotStarted, match="flushDiskType"):
        server.start()
    with pytest.raises(RuntimeError, match="does not run"):
        _ = server.pid
    server.stop()
