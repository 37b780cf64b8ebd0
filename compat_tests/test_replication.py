"""A master of ours with a slave of Apache RocketMQ 5.5.0: equal logs, true answers, peers that count for nothing."""

from __future__ import annotations

import itertools
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from testcontainers.core.container import DockerContainer

from compat_tests import scenarios
from compat_tests.conftest import running
from compat_tests.environment import bridge_gateway, wait_until
from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, GatewayProcess, broker_container
from compat_tests.scenarios import Scene
from gateway.client import LitePullConsumer, Message, Producer, ProducerSettings, RocketMQError, SendStatus
from wire.replication.classic import build_report

MESSAGES = 300
FILE_BYTES = 100 * 1024 * 1024
"""The size of a log file of the slave's configuration."""
SETTINGS = {
    **QUICK,
    "brokerName": "broker-a",
    "brokerRole": "SYNC_MASTER",
    "slaveTimeout": "2000",
    "mappedFileSizeCommitLog": str(FILE_BYTES),
}
OK, LATE, NOBODY = SendStatus.SEND_OK, SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE


class Master(GatewayProcess):
    """`rocketmq-gateway serve` as a master, with a log that tests wait for."""

    def __init__(self, root: Path, **settings: str) -> None:
        super().__init__(root / "master", {**SETTINGS, **settings})

    @property
    def ha_port(self) -> int:
        return self.broker_port + 1

    def says(self, event: str) -> int:
        """How often a log line with this text was written."""
        return self.log.read_text().count(event)

    def wait_for(self, event: str, times: int = 1) -> None:
        """Wait for a line: a broker in a container starts as quickly as the machine lets it."""
        wait_until(lambda: self.says(event) >= times, f"{times} × {event}", timeout_s=60, is_patient=True)

    def send(self, topic: str) -> SendStatus:
        with Producer("senders", namesrv=self.nameserver) as producer:
            return producer.send(Message(topic, b"one"), accept=set(SendStatus)).status


class Slave:
    """Apache RocketMQ's broker as a slave."""

    def __init__(self, container: DockerContainer, store: Path) -> None:
        self.container = container.get_wrapped_container()
        self._store = store

    @property
    def log(self) -> bytes:
        return log_in(self._store)


def log_in(store: Path) -> bytes:
    """The bytes of the log in a store, up to the last one that is not zero."""
    files = sorted((store / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files if len(file.name) == 20).rstrip(b"\0")


def wait_for_equal_logs(*stores: Path, timeout_s: float = 30.0) -> None:
    """Wait until the logs of all stores are equal."""
    wait_until(lambda: len({log_in(store) for store in stores}) == 1, "equal logs", timeout_s=timeout_s)


@contextmanager
def slave_of(master: Master, store: Path) -> Iterator[Slave]:
    store.mkdir(exist_ok=True)
    settings = {"brokerRole": "SLAVE", "brokerId": "1", "registerNameServerPeriod": "10000"}
    with broker_container(master.nameserver_port, store, settings) as container:
        yield Slave(container, store)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    with running(Master(tmp_path)) as running_master:
        assert isinstance(running_master, Master)
        yield running_master


def test_a_slave_of_apaches_has_every_message_that_was_answered_ok(
    master: Master, newest_client: JavaClient, tmp_path: Path
) -> None:
    scene = Scene(master, newest_client, MESSAGES)
    assert master.send("orders") is NOBODY
    with slave_of(master, tmp_path / "slave") as slave:
        master.wait_for('event="slave copies"')
        topic = scene.topic()
        scenarios.send_all(scene, topic, "send-sync")
        scenarios.receive_all(scene, topic, "consume-push")
        scenarios.transactions_by_thirds(scene)
        wait_until(lambda: slave.log == log_in(master.data), "equal logs")

        slave.container.pause()
        assert master.send("orders") is LATE
        slave.container.unpause()
        wait_until(lambda: master.send("orders") is OK, "an answer with a copy")
        slave.container.kill()
        wait_until(lambda: master.send("orders") is NOBODY, "an answer without a slave")
        not_ok = scene.run("send-sync", topic=topic, run="alone", count=10, retries=0)
        assert (not_ok["not_ok"], not_ok["failed"]) == (10, 0), str(not_ok)
        slave.container.start()
        master.wait_for('event="slave copies"', 2)
        wait_until(lambda: master.send("orders") is OK, "an answer with a copy")
        wait_until(lambda: slave.log == log_in(master.data), "equal logs")


def test_a_master_that_waits_for_nobody_is_copied_all_the_same(newest_client: JavaClient, tmp_path: Path) -> None:
    settings = {"brokerRole": "ASYNC_MASTER", "haListenPort": "0", "flushDiskType": "ASYNC_FLUSH"}
    with running(Master(tmp_path, **settings)) as peer:
        assert isinstance(peer, Master)
        assert peer.send("orders") is OK
        scene = Scene(peer, newest_client, MESSAGES)
        with slave_of(peer, tmp_path / "slave") as slave:
            peer.wait_for('event="slave copies"')
            topic = scene.topic()
            scenarios.send_all(scene, topic, "send-batch")
            scenarios.receive_all(scene, topic, "consume-push")
            wait_until(lambda: slave.log == log_in(peer.data), "equal logs")


class Load:
    """Threads that send, and keep what was answered OK with its queue and offset."""

    def __init__(self, nameserver: str, topic: str, threads: int = 4) -> None:
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.others: Counter[str] = Counter()
        self._ends = threading.Event()
        self._nameserver, self._topic = nameserver, topic
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self) -> None:
        before = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) > before + 50, "acknowledged messages")

    def _send(self, number: int) -> None:
        with Producer(
            f"load_{number}", ProducerSettings(retry_times_when_send_failed=0), namesrv=self._nameserver
        ) as producer:
            for count in itertools.count():
                if self._ends.is_set():
                    return
                body = b"%d-%d" % (number, count)
                try:
                    sent = producer.send(Message(self._topic, body), accept=set(SendStatus))
                except RocketMQError as error:
                    self.others[type(error).__name__] += 1
                    self._ends.wait(0.05)
                else:
                    if sent.status is OK:
                        self.acknowledged[body] = sent.queue.queue_id, sent.queue_offset
                    else:
                        self.others[sent.status.name] += 1


def test_no_acknowledged_message_is_lost_or_moved_by_kills_and_pauses_of_both(master: Master, tmp_path: Path) -> None:
    master.send("orders")
    with slave_of(master, tmp_path / "slave") as slave:
        master.wait_for('event="slave copies"')
        with Load(master.nameserver, "orders") as load:
            for fault in ("kill master", "pause slave", "kill slave", "stop master", "kill both"):
                load.wait_for_more()
                do(fault, master, slave)
            load.wait_for_more()
        assert load.others, "the faults were seen"
        wait_until(lambda: slave.log == log_in(master.data), "equal logs")
    found: dict[bytes, list[tuple[int, int]]] = {}
    with LitePullConsumer("readers", namesrv=master.nameserver) as consumer:
        queues = consumer.message_queues("orders")
        consumer.assign(queues)
        for queue in queues:
            consumer.seek_to_begin(queue)
        while messages := consumer.poll(3):
            for message in messages:
                found.setdefault(message.body, []).append((message.queue.queue_id, message.queue_offset))
    wrong = {body: (place, found.get(body)) for body, place in load.acknowledged.items() if found.get(body) != [place]}
    assert wrong == {}
    assert len(load.acknowledged) > 300


def do(fault: str, master: Master, slave: Slave) -> None:
    """Do something to a master or its slave, and wait until the slave copies again."""
    copies = master.says('event="slave copies"')
    match fault.split():
        case ["pause", _]:
            slave.container.pause()
            threading.Event().wait(3)
            slave.container.unpause()
            return
        case ["stop", _]:
            master.stop()
            master.start()
        case [_, "master"]:
            master.kill()
            master.start()
        case [_, "slave"]:
            slave.container.kill()
            slave.container.start()
        case _:
            slave.container.kill()
            master.kill()
            master.start()
            slave.container.start()
    master.wait_for('event="slave copies"', copies + 1)


def test_a_peer_that_acknowledges_everything_counts_for_nothing(master: Master) -> None:
    for _ in range(2):
        place = bridge_gateway(), master.ha_port
        # Closed at once: perhaps before it knows that it is connected.
        with suppress(ConnectionResetError, BrokenPipeError), socket.create_connection(place, timeout=10) as stray:
            stray.sendall(build_report(1_000_000_000))
            assert stray.recv(1) == b""
        assert master.send("orders") is NOBODY
    assert master.says('event="no slave"') == 1


def test_a_slave_ahead_is_refused_with_both_offsets_and_so_is_one_that_differs(tmp_path: Path) -> None:
    master, store = Master(tmp_path), tmp_path / "slave"
    older = tmp_path / "older"
    with running(master):
        master.send("orders")
    shutil.copytree(master.data, older)
    with running(master), slave_of(master, store) as slave:
        master.wait_for('event="slave copies"')
        assert [master.send("orders") for _ in range(3)] == [OK, OK, OK]
        kept = log_in(master.data)
        wait_until(lambda: slave.log == kept, "equal logs")
        master.stop()
        shutil.rmtree(master.data)
        shutil.copytree(older, master.data)
        master.start()
        begin = len(log_in(master.data))
        master.wait_for(f"the copy reaches to {len(kept)}, and the master's log ends at {begin}")
        assert [master.send("orders") for _ in range(5)] == [NOBODY] * 5
        master.wait_for(f"reports {len(kept)} bytes, and the records at offset")
        assert master.send("orders") is NOBODY
        assert slave.log == kept, "nothing was added to it"
