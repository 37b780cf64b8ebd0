"""Name servers and brokers of both makes together: ours with Apache RocketMQ's, each way round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests import scenarios
from compat_tests.conftest import running
from compat_tests.environment import LABEL, bridge_gateway, owner
from compat_tests.images import image
from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, GatewayProcess, container_address, gateway_command
from compat_tests.scenarios import Scene

MESSAGES = 500


class GatewayBroker(GatewayProcess):
    """`rocketmq-gateway broker` that registers with a name server elsewhere."""

    name = "gateway-broker"

    def __init__(self, data: Path, nameserver: str) -> None:
        super().__init__(data)
        self.nameserver = nameserver
        self.command = [*gateway_command(), "broker", "--data", str(data), "--bind", "0.0.0.0"]
        self.command += ["--port", str(self.broker_port), "-n", nameserver]
        for key, value in QUICK.items():
            self.command += ["--set", f"{key}={value}"]

    ready = "ready broker="


class GatewayNameServer(GatewayProcess):
    """`rocketmq-gateway nameserver` alone."""

    name = "gateway-nameserver"

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.command = [*gateway_command(), "nameserver", "--data", str(data), "--bind", "0.0.0.0"]
        self.command += ["--port", str(self.nameserver_port)]

    ready = "ready nameserver="


def apache(ready: str, **environment: str) -> DockerContainer:
    """One Apache server of a role."""
    container = (
        DockerContainer(image("rocketmq", "5.5.0"))
        .with_kwargs(labels={LABEL: owner()})
        .waiting_for(LogMessageWaitStrategy(ready).with_startup_timeout(120))
    )
    for name, value in environment.items():
        container.with_env(name, value)
    return container


@pytest.fixture
def apache_name_server() -> Iterator[str]:
    with apache("boot success", ROLE="nameserver") as container:
        yield f"{container_address(container)}:9876"


def send_and_receive(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-sync")
    scenarios.receive_all(scene, topic, "consume-push")


def test_our_broker_serves_clients_of_an_apache_name_server(
    apache_name_server: str, newest_client: JavaClient, tmp_path: Path
) -> None:
    with running(GatewayBroker(tmp_path / "data", apache_name_server)) as broker:
        scene = Scene(broker, newest_client, MESSAGES)
        send_and_receive(scene)
        scenarios.transactions_by_thirds(scene)


def test_an_apache_broker_serves_clients_of_our_name_server(newest_client: JavaClient, tmp_path: Path) -> None:
    with running(GatewayNameServer(tmp_path / "data")) as name_server:
        port = name_server.nameserver.rpartition(":")[2]
        role = {"ROLE": "broker", "NAMESERVER_HOST": bridge_gateway(), "NAMESERVER_PORT": port}
        with apache(r"The broker\[.*boot success", **role):
            send_and_receive(Scene(name_server, newest_client, MESSAGES))
