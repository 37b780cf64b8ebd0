"""A pair of brokers that speak nothing but TLS and check accounts: copies, strangers at its port, a switch."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from gateway.client import Message, Producer, ProducerSettings, SendStatus, TlsSettings
from gateway.client.errors import RocketMQError
from gateway.client.testing.server import GatewayServer, free_port
from gateway.tests.remoting.tls.speaking import trusting
from wire.replication.classic import build_report

ROOT = {"username": "root", "password": "root-secret"}
INNER = {"accessKey": "inner", "secretKey": "inner-secret"}
TLS = TlsSettings(verify=False)
HERE = "127.0.0.1"
PATIENCE_S = 60.0
"""The time that a busy machine may take."""


def guarded(access: Path) -> dict[str, str]:
    return {
        "brokerName": "mq-a",
        "tls.server.mode": "enforcing",
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "gateway.accessFile": str(access),
        "initAuthenticationUser": json.dumps(ROOT),
        "innerClientAuthenticationCredentials": json.dumps(INNER),
        "registerNameServerPeriod": "10000",
    }


class Follower(GatewayServer):
    """A broker that registers with the name server of another process."""

    def __init__(self, nameserver: str, data: Path, settings: dict[str, str]) -> None:
        super().__init__(data, settings=settings)
        self._at = nameserver

    def _command(self) -> list[str]:
        command = super()._command()
        command[command.index("serve")] = "broker"
        at = command.index("--nameserver-port")
        command[at : at + 2] = ["-n", self._at]
        return command


class Relay:
    """A cable between a slave and its master, with an ear on it."""

    def __init__(self, to_port: int) -> None:
        self._to = to_port
        self._listening = socket.create_server((HERE, 0))
        self.port: int = self._listening.getsockname()[1]
        self.begins: list[bytes] = []
        """The first bytes of each connection, from its slave."""
        self.heard = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
                far = socket.create_connection((HERE, self._to))
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_slave: bool) -> None:
        is_first = is_slave
        try:
            while data := source.recv(65_536):
                if is_first:
                    self.begins.append(data[:8])
                    is_first = False
                self.heard += data
                sink.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            sink.close()

    def close(self) -> None:
        self._listening.close()


def until(found: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    ends = monotonic() + PATIENCE_S
    while not found():
        assert monotonic() < ends, what
        Event().wait(0.05)


def sent(producer: Producer, body: bytes) -> None:
    """Send until a message is answered SEND_OK."""

    def is_sent() -> bool:
        try:
            return producer.send(Message("Guarded", body)).status is SendStatus.SEND_OK
        except RocketMQError:
            return False

    until(is_sent, "no send was answered SEND_OK")


def answer_of(port: int, context: ssl.SSLContext | None) -> bytes:
    """Return what a stranger hears who speaks as a classic slave does."""
    heard = b""
    try:
        plain = socket.create_connection((HERE, port), timeout=PATIENCE_S)
        with plain if context is None else context.wrap_socket(plain, server_hostname="localhost") as talk:
            talk.sendall(build_report(0))
            while data := talk.recv(65_536):
                heard += data
    except (ssl.SSLError, ConnectionError):
        pass
    return heard


def promote(nameserver: str, keys: dict[str, str]) -> subprocess.CompletedProcess[str]:
    names = ("ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY", "ROCKETMQ_CREDENTIALS_FILE")
    environment = {name: text for name, text in os.environ.items() if name not in names}
    command = [sys.executable, "-P", "-m", "gateway.cli", "failover", "promote", "mq-a", "-n", nameserver]
    return subprocess.run(
        [*command, "--id", "1", "--tls-any"],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
        env={**environment, **keys},
    )


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[GatewayServer, Follower, Relay, int]]:
    ports = free_port(), free_port()
    settings = guarded(tmp_path / "access.json")
    relay = Relay(ports[0])
    master = GatewayServer(
        tmp_path / "master",
        settings={**settings, "brokerRole": "SYNC_MASTER", "haListenPort": str(ports[0])},
    )
    own = {"brokerRole": "SLAVE", "brokerId": "1", "haListenPort": str(ports[1])}
    own |= {"haMasterAddress": f"{HERE}:{relay.port}", "gateway.accessFile": str(tmp_path / "other.json")}
    try:
        with master, Follower(master.nameserver, tmp_path / "slave", {**settings, **own}) as slave:
            yield master, slave, relay, ports[0]
    finally:
        relay.close()


@pytest.mark.long
def test_a_pair_with_tls_and_accounts_copies_and_switches_and_strangers_get_nothing(
    pair: tuple[GatewayServer, Follower, Relay, int],
) -> None:
    master, slave, relay, ha_port = pair
    body = b"known only to those with keys " * 20
    name, password = ROOT.values()
    settings = ProducerSettings(namesrv=master.nameserver, tls=TLS, access_key=name, secret_key=password)
    with Producer("producers", settings) as producer:
        sent(producer, body)
        logs = [server.data / "commitlog" / f"{0:020d}" for server in (master, slave)]
        until(lambda: logs[0].read_bytes() == logs[1].read_bytes(), "the logs differ")
        assert body in logs[1].read_bytes()
        assert {begin[:1] for begin in relay.begins} == {b"\x16"}
        assert body[:30] not in relay.heard
        assert b"RMQGWHA" not in relay.heard

        assert answer_of(ha_port, None) == b""
        assert answer_of(ha_port, trusting()) == b""
        log = master.log.read_text()
        assert "it speaks no TLS, and tls.server.mode=enforcing" in log
        assert "it shows no token, and accounts are checked" in log

        refused = promote(master.nameserver, {})
        assert refused.returncode != 0
        assert "username cannot be" in refused.stderr
        done = promote(master.nameserver, {"ROCKETMQ_ACCESS_KEY": name, "ROCKETMQ_SECRET_KEY": password})
        assert done.returncode == 0, done.stderr
        assert f"{slave.broker} is the master" in done.stdout
        assert "Guarded" in (slave.data / "config" / "topics.json").read_text()
        sent(producer, b"after the switch " + body)
        until(lambda: logs[0].read_bytes() == logs[1].read_bytes(), "the logs differ after the switch")
        assert b"after the switch" in logs[0].read_bytes()
