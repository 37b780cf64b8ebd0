"""The gateway as a child process: ready when it says so, gone when it was stopped, with its data when it was killed."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from gateway.client import Message, Producer
from gateway.client.blocking.admin import AdminClient
from gateway.client.testing.server import CHOICE, GatewayServer, ServerNotStarted, free_port


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


LINUX_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not LINUX_RANGE.exists(), reason="only Linux tells its range in a file")
def test_no_outgoing_connection_gets_one_of_them() -> None:
    first = int(LINUX_RANGE.read_text().split()[0])
    if first < CHOICE.stop:
        pytest.skip(f"this machine gives ports from {first} on to outgoing connections")
    assert {free_port() for _ in range(50)} <= set(CHOICE)


def test_the_port_and_that_of_the_vip_channel_are_free() -> None:
    port = free_port()
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", port))
        two.bind(("127.0.0.1", port - 2))


def test_a_port_is_given_once_with_those_that_its_broker_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    given = free_port()
    taken = [given, given - 2, given + 2]
    chosen = taken + random.choices(CHOICE, k=1_000)
    monkeypatch.setattr(random, "choices", lambda *_, **__: chosen)
    assert free_port() not in taken
