"""`serve --brokers 2`: a cluster of two broker processes, which stock clients share and which end with their parent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from compat_tests.environment import wait_until
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import GatewayProcess, free_ports
from compat_tests.reading import read_until_all
from compat_tests.scenarios import Scene, receive_all, send_all, unused_topic
from gateway.client import AdminClient, Message, Producer, ProducerSettings

BROKERS = {"mq-0", "mq-1"}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    ports = (0, free_ports()[1])
    process = GatewayProcess(tmp_path / "data", {"brokerName": "mq"}, ports=ports, arguments=("--brokers", "2"))
    process.start()
    yield process
    process.stop()


def broker_processes(gateway: GatewayProcess) -> dict[str, psutil.Process]:
    """Return the broker processes by name, as their command lines say."""
    found = {}
    for process in psutil.Process(gateway.pid).children():
        (name,) = (text for text in process.cmdline() if text.startswith("brokerName=mq-"))
        found[name.removeprefix("brokerName=")] = process
    return found


def test_java_clients_use_both_brokers(gateway: GatewayProcess, clients: Callable[[str], JavaClient]) -> None:
    scene = Scene(gateway, clients(CLIENT_VERSIONS[-1]), 400)
    topic = unused_topic()
    with AdminClient(namesrv=gateway.nameserver) as admin:
        admin.topics.create(topic, queues=4)
        send_all(scene, topic)
        stored = Counter[str]()
        for queue, place in admin.topics.stats(topic).items():
            stored[queue.broker_name] += place.max_offset - place.min_offset
    assert stored.keys() == BROKERS
    assert min(stored.values()) > 100, f"one broker got nearly all: {stored}"
    receive_all(scene, topic)


def test_sends_go_on_while_a_broker_is_killed_and_nothing_acknowledged_is_lost(gateway: GatewayProcess) -> None:
    sent: Counter[bytes] = Counter()
    settings = ProducerSettings(namesrv=gateway.nameserver, poll_name_server_interval=0.5)
    with Producer("p_several", settings) as producer:

        def send(count: int) -> set[str]:
            results = []
            for _ in range(count):
                body = b"%d" % len(sent)
                results.append(producer.send(Message("several", body)))
                sent[body] += 1
            return {result.queue.broker_name for result in results}

        assert send(50) == BROKERS
        before = broker_processes(gateway)
        before["mq-1"].kill()
        assert "mq-0" in send(50), "there is another broker"
        wait_until(lambda: broker_processes(gateway).keys() == BROKERS, "the killed broker's next process")
        wait_until(lambda: send(8) == BROKERS, "sends to the broker that is back")
    assert broker_processes(gateway)["mq-0"] == before["mq-0"], "the other one went on"
    assert read_until_all(gateway.nameserver, "several", sent.keys()) == BROKERS


def test_no_broker_outlives_its_parent(gateway: GatewayProcess) -> None:
    processes = list(broker_processes(gateway).values())
    gateway.kill()
    _, alive = psutil.wait_procs(processes, timeout=15)
    assert not alive
