"""Two name servers and three brokers on five machines (network namespaces): one of each is cut off and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.environment import wait_until
from compat_tests.network_cut.switch import Machine, Switch
from compat_tests.peers import GatewayProcess, gateway_command
from compat_tests.reading import read_until_all
from gateway.client import AdminClient, Message, Producer, ProducerSettings, RequestTimeout

PORTS = (10911, 9876)
BROKERS = ("mq-a", "mq-b", "mq-c")


class Server(GatewayProcess):
    """A command on a machine of its own."""

    def __init__(self, machine: Machine, data: Path, role: str, *arguments: str) -> None:
        super().__init__(data, bind=machine.address, ports=PORTS)
        self.ready = f"ready {role}="
        self.command = machine.command(
            *gateway_command(), role, "--data", str(data), "--bind", machine.address, *arguments
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """The machines; ``name_servers`` are addresses for clients."""

    name_servers: list[Machine]
    brokers: list[Machine]

    @property
    def addresses(self) -> list[str]:
        return [f"{machine.address}:{PORTS[1]}" for machine in self.name_servers]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        switch = stack.enter_context(Switch())
        made = Cluster([switch.machine() for _ in range(2)], [switch.machine() for _ in BROKERS])
        servers = [Server(machine, tmp_path / machine.namespace, "nameserver") for machine in made.name_servers]
        options = ("-n", ";".join(made.addresses), "--set", "registerNameServerPeriod=1000", "--set")
        servers += [
            Server(machine, tmp_path / name, "broker", *options, f"brokerName={name}")
            for machine, name in zip(made.brokers, BROKERS, strict=True)
        ]
        for server in servers:
            stack.callback(server.kill)
            server.start()
        yield made


def test_clients_go_on_when_a_name_server_and_a_broker_are_cut_off(cluster: Cluster) -> None:
    sent: set[bytes] = set()
    told = 0
    settings = ProducerSettings(
        namesrv=cluster.addresses,
        send_msg_timeout=1.0,
        send_latency_fault_enable=True,
        poll_name_server_interval=0.5,
    )
    with AdminClient(namesrv=cluster.addresses) as admin:
        admin.topics.create("orders", queues=2)
    with Producer("shop", settings) as producer:

        def send(count: int) -> set[str]:
            used = set()
            for number in range(len(sent), len(sent) + count):
                body = b"%d" % number
                try:
                    used.add(producer.send(Message("orders", body)).queue.broker_name)
                except RequestTimeout:
                    nonlocal told
                    told += 1
                else:
                    sent.add(body)
            return used

        assert send(12) == set(BROKERS)
        lost = [cluster.name_servers[0], cluster.brokers[2]]
        for machine in lost:
            machine.cut()
        assert send(30) == {"mq-a", "mq-b"}
        assert told <= 3, "a broker that does not answer is avoided"
        for machine in lost:
            machine.mend()
        wait_until(lambda: "mq-c" in send(6), "sends to the broker that is back")
    # The name server that was away knows all brokers again.
    assert read_until_all(cluster.addresses[0], "orders", sent) == set(BROKERS)
