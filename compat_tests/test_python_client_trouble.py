"""The Python client in trouble: nothing acknowledged is lost, no call hangs, errors name the cause.

Servers that break the protocol are in ``gateway/client/tests/hostile/test_bad_servers.py``. A cut of a minute:
``python -m compat_tests.network_cut --seconds 60``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.network_cut import command
from compat_tests.peers import QUICK, GatewayProcess, gateway_command
from gateway.client import (
    AdminClient,
    ConnectError,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RocketMQError,
)
from gateway.tests.stalls import Stalls

TOPIC = "trouble"
_MOST_CALL_S = 3.0 + 2.0
"""The time-out of a send, and what a busy machine adds; what it made everybody wait comes on top."""


class Seen:
    """A listener that remembers bodies."""

    def __init__(self) -> None:
        self.bodies: set[bytes] = set()

    def __call__(self, message: ReceivedMessage) -> None:
        self.bodies.add(message.body)


class Senders:
    """Threads that send all the time, each message by itself, and one with many in flight."""

    def __init__(self, nameserver: str, threads: int = 3) -> None:
        self.acknowledged: list[bytes] = []
        self.failures: list[RocketMQError] = []
        self.slowest_s = 0.0
        self._ended = threading.Event()
        self._producer = Producer("trouble", ProducerSettings(namesrv=nameserver))
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(threads)]
        self._threads.append(threading.Thread(target=self._send_many))

    def __enter__(self) -> Senders:
        self._producer.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let them end; idempotent."""
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a call hangs"
        self._producer.close()

    def get_on(self, more: int = 50) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + more
        wait_until(lambda: len(self.acknowledged) >= wanted, "messages are acknowledged")

    def _send(self, thread: int) -> None:
        number = 0
        while not self._ended.wait(0.005):
            number += 1
            body = b"%d-%d" % (thread, number)
            begun = time.monotonic()
            try:
                self._producer.send(Message(TOPIC, body, keys=body.decode()))
                self.acknowledged.append(body)
            except RocketMQError as error:
                self.failures.append(error)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def _send_many(self) -> None:
        number = 0
        while not self._ended.wait(0.02):
            bodies = [b"many-%d" % (number + place) for place in range(20)]
            number += len(bodies)
            begun = time.monotonic()
            futures = [self._producer.send_async(Message(TOPIC, body)) for body in bodies]
            for body, future in zip(bodies, futures, strict=True):
                try:
                    future.result(60)
                    self.acknowledged.append(body)
                except RocketMQError as error:
                    self.failures.append(error)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def make_topic(nameserver: str) -> None:
    with AdminClient(namesrv=nameserver) as admin:
        admin.topics.create(TOPIC, queues=4)


def consumer(nameserver: str, seen: Seen) -> PushConsumer:
    settings = PushSettings(
        namesrv=nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET, pull_time_delay_when_exception=0.5
    )
    return PushConsumer("trouble_readers", seen, settings, subscriptions={TOPIC: "*"})


def test_threads_lose_nothing_acknowledged_when_the_broker_is_killed_twice(data: Path) -> None:
    peer = GatewayProcess(data, QUICK, bind="127.0.0.1")
    seen = Seen()
    with running(peer), Stalls(data.parent) as stalls:
        make_topic(peer.nameserver)
        with consumer(peer.nameserver, seen), Senders(peer.nameserver) as senders:
            for _ in range(2):
                senders.get_on()
                peer.kill()
                peer.start()
            senders.get_on()
            senders.stop()
            wait_until(lambda: seen.bodies >= set(senders.acknowledged), "everything acknowledged arrives")
    assert senders.slowest_s < _MOST_CALL_S + stalls.longest_ms / 1_000
    assert all(error.retriable or error.outcome_unknown for error in senders.failures), senders.failures


# --- name servers ---------------------------------------------------------------------------------------------


class NameServer(GatewayProcess):
    """``rocketmq-gateway nameserver`` alone, for this machine."""

    def __init__(self, data: Path) -> None:
        super().__init__(data, bind="127.0.0.1")
        self.command = [*gateway_command(), "nameserver", "--data", str(data), "--bind", "127.0.0.1"]
        self.command += ["--port", str(self.nameserver_port)]


class Broker(GatewayProcess):
    """``rocketmq-gateway broker`` that registers with name servers elsewhere."""

    ready = "ready broker="

    def __init__(self, data: Path, nameservers: str) -> None:
        super().__init__(data, bind="127.0.0.1")
        self.command = [*gateway_command(), "broker", "--data", str(data), "--bind", "127.0.0.1"]
        self.command += ["--advertise", "127.0.0.1", "--port", str(self.broker_port), "-n", nameservers]
        for key, value in QUICK.items():
            self.command += ["--set", f"{key}={value}"]


@pytest.fixture
def name_servers(tmp_path: Path) -> Iterator[list[NameServer]]:
    servers = [NameServer(tmp_path / f"names-{number}") for number in range(2)]
    with running(servers[0]), running(servers[1]):
        yield servers


def test_messages_flow_while_name_servers_are_lost(name_servers: list[NameServer], data: Path) -> None:
    nameservers = ";".join(server.nameserver for server in name_servers)
    seen = Seen()
    with running(Broker(data, nameservers)):
        make_topic(nameservers)
        wait_until(lambda: all(_knows(server) for server in name_servers), "both name servers know the topic")
        with consumer(nameservers, seen), Senders(nameservers) as senders:
            senders.get_on()
            name_servers[0].kill()
            senders.get_on()
            with Producer("newcomer", namesrv=nameservers) as producer:
                producer.send(Message(TOPIC, b"newcomer"))  # one name server is enough, whichever is asked first
            name_servers[1].kill()
            senders.get_on(200)
            with Producer("late", namesrv=nameservers) as producer, pytest.raises(ConnectError) as caught:
                producer.send(Message(TOPIC, b"late"))
            assert any(server.nameserver in str(caught.value) for server in name_servers)
            assert "namesrv" in str(caught.value)
            name_servers[0].start()  # and knows nothing until the broker tells it
            senders.get_on(200)
            senders.stop()
            wait_until(lambda: seen.bodies >= set(senders.acknowledged), "everything acknowledged arrives")
    assert not senders.failures, "who knows the route needs no name server"
    assert b"newcomer" in seen.bodies


def _knows(server: NameServer) -> bool:
    try:
        with AdminClient(namesrv=server.nameserver) as admin:
            return len(admin.topics.route(TOPIC).publish_queues) == 4
    except RocketMQError:
        return False


# --- the network ----------------------------------------------------------------------------------------------


def test_a_cut_of_some_seconds_loses_nothing_and_hangs_nobody(tmp_path: Path) -> None:
    findings = command.run(5.0, tmp_path)
    assert findings.wrong == []
    assert findings.back_s < 30.0


def test_an_advertised_address_that_nobody_can_reach_is_named(data: Path) -> None:
    peer = GatewayProcess(data, QUICK, bind="127.0.0.1", advertise="192.0.2.1")
    with running(peer):
        settings = ProducerSettings(namesrv=peer.nameserver, connect_timeout=0.5)
        with Producer("lost", settings) as producer, pytest.raises(ConnectError) as caught:
            producer.send(Message(TOPIC, b"never"))
        for word in ("192.0.2.1", "advertises", "brokerIP1", "address_map"):
            assert word in str(caught.value)
        reachable = {f"192.0.2.1:{peer.broker_port}": f"127.0.0.1:{peer.broker_port}"}
        with Producer("found", settings.with_changes(address_map=reachable)) as producer:
            for _ in range(5):
                producer.send(Message(TOPIC, b"mapped"))
