"""Slaves of ours, of masters of Apache RocketMQ 5.5.0 and of ours: equal logs, tables that follow, reads without it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compat_tests import frames, scenarios
from compat_tests.conftest import running
from compat_tests.environment import bridge_gateway, wait_until
from compat_tests.java_client import JavaClient
from compat_tests.peers import APACHE_ONLY, QUICK, GatewayProcess, broker_container, container_address, gateway_command
from compat_tests.scenarios import Scene
from compat_tests.test_replication import log_in
from wire.bodies.fastjson import parse_json

MESSAGES = 300
FOLLOWS_S = 2.0
FILES = {"mappedFileSizeCommitLog": str(100 * 1024 * 1024)}
"""The size of a log file of the master's configuration."""
SYNC = {**QUICK, **FILES, "brokerName": "broker-a", "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
CREATE_TOPIC, CREATE_GROUP, GET_TOPIC, GET_GROUP, LOCK, SEND, STATE = 17, 200, 351, 352, 41, 310, 907
QUERY_OFFSET, COMMIT_OFFSET = 14, 15


class NameServer(GatewayProcess):
    """`rocketmq-gateway nameserver`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root / "nameserver")
        self.command = [*gateway_command(), "nameserver", "--bind", "0.0.0.0", "--data", str(self.data)]
        self.command += ["--port", str(self.nameserver_port)]


class Broker(GatewayProcess):
    """`rocketmq-gateway broker`."""

    ready = "ready broker="

    def __init__(self, names: NameServer, data: Path, settings: dict[str, str]) -> None:
        super().__init__(data, ports=None)
        self.nameserver = names.nameserver
        self.command = [*gateway_command(), "broker", "-n", names.nameserver, "--bind", "0.0.0.0", "--data", str(data)]
        self.command += ["--port", str(self.broker_port)]
        for key, value in settings.items():
            self.command += ["--set", f"{key}={value}"]

    @property
    def address(self) -> tuple[str, int]:
        return bridge_gateway(), self.broker_port


def slave_of(names: NameServer, data: Path) -> Broker:
    own = {"brokerName": "broker-a", "brokerId": "1", "brokerRole": "SLAVE", "slaveReadEnable": "true"}
    return Broker(names, data, {**QUICK, **FILES, **own, "gateway.advertise": own_address()})


class ApacheMaster:
    """Apache RocketMQ's broker, of a name server of ours."""

    def __init__(self, names: NameServer, data: Path) -> None:
        data.mkdir()
        self.data = data
        self.container = broker_container(names.nameserver_port, data, {**SYNC, **APACHE_ONLY})

    @property
    def address(self) -> tuple[str, int]:
        return container_address(self.container), 10911

    def kill(self) -> None:
        self.container.get_wrapped_container().kill()


Masters = Callable[[NameServer, Path], Any]


@contextmanager
def apaches(names: NameServer, data: Path) -> Iterator[ApacheMaster]:
    master = ApacheMaster(names, data)
    with master.container:
        yield master


@contextmanager
def ours(names: NameServer, data: Path) -> Iterator[Broker]:
    with running(Broker(names, data, SYNC)) as master:
        assert isinstance(master, Broker)
        yield master


def asked(address: tuple[str, int], code: int, **fields: str) -> frames.Frame:
    """Ask a broker."""
    answer = frames.ask(address, frames.request(code, fields))
    assert answer is not None
    return answer


def told(address: tuple[str, int], code: int, **fields: str) -> None:
    """Let a broker carry something out."""
    answer = asked(address, code, **fields)
    assert answer.code == 0, answer.remark


def table(address: tuple[str, int], code: int, member: str) -> Any:
    """Return a table of a broker."""
    return parse_json(asked(address, code).body)[member]


def same_table(slave: Any, master: Any, code: int, member: str) -> bool:
    """Return whether two brokers answer with the same table."""
    return bool(table(slave.address, code, member) == table(master.address, code, member))


def assert_follows(master: tuple[str, int], slave: tuple[str, int], number: int) -> None:
    """Change each kind of table at the master, and look how soon the slave has it."""
    topic, group = f"followed-{number}", f"followers-{number}"
    queues = {"readQueueNums": "3", "writeQueueNums": "3", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    told(master, CREATE_TOPIC, topic=topic, defaultTopic="TBW102", topicSysFlag="0", order="false", **queues)
    wait_until(lambda: asked(slave, GET_TOPIC, topic=topic).code == 0, f"topic {topic}", timeout_s=FOLLOWS_S)
    made = frames.ask(master, frames.request(CREATE_GROUP, body=json.dumps({"groupName": group}).encode()))
    assert made is not None
    assert made.code == 0, made.remark
    wait_until(lambda: asked(slave, GET_GROUP, group=group).code == 0, f"group {group}", timeout_s=FOLLOWS_S)
    place = {"consumerGroup": group, "topic": topic, "queueId": "1"}
    told(master, COMMIT_OFFSET, commitOffset="7", **place)
    wait_until(
        lambda: asked(slave, QUERY_OFFSET, **place).fields.get("offset") == "7", "the offset", timeout_s=FOLLOWS_S
    )


def own_address() -> str:
    """The address of this machine as its own servers see it behind the engine's address translation."""
    with (
        socket.create_server(("0.0.0.0", 0)) as server,
        socket.create_connection((bridge_gateway(), server.getsockname()[1])),
    ):
        connection, (host, _) = server.accept()
        connection.close()
    return str(host)


@pytest.fixture
def names(tmp_path: Path) -> Iterator[NameServer]:
    with running(NameServer(tmp_path)) as server:
        assert isinstance(server, NameServer)
        yield server


@pytest.mark.parametrize("masters", [apaches, ours])
def test_a_slave_has_what_its_master_answered_and_is_read_when_the_master_is_dead(
    masters: Masters, names: NameServer, newest_client: JavaClient, tmp_path: Path
) -> None:
    slave = slave_of(names, tmp_path / "slave")
    with masters(names, tmp_path / "master") as master, running(slave):
        wait_until(lambda: "copying from a master" in slave.log.read_text(), "a connection", timeout_s=60)
        scene = Scene(names, newest_client, MESSAGES)
        topic = scene.topic()
        scenarios.send_all(scene, topic, "send-sync")
        scenarios.receive_all(scene, topic, "consume-push")
        scenarios.transactions_by_thirds(scene, 300)
        for number in range(3):
            assert_follows(master.address, slave.address, number)
        wait_until(lambda: log_in(slave.data) == log_in(master.data), "equal logs")
        for code, member in ((21, "topicConfigTable"), (201, "subscriptionGroupTable"), (43, "offsetTable")):
            wait_until(partial(same_table, slave, master, code, member), f"equal answers to {code}")
        for code in (SEND, LOCK, CREATE_TOPIC):
            refused = asked(slave.address, code)
            assert refused.code == 2
            assert f"its master is {':'.join(map(str, master.address))}" in refused.remark
        state = parse_json(asked(slave.address, STATE).body)
        assert state["master"] is False
        assert state["haClientRuntimeInfo"]["maxOffset"] == len(log_in(master.data))

        kept = log_in(master.data)
        master.kill()
        scenarios.receive_all(scene, topic, "consume-push", group=f"late_{topic}")
        assert log_in(slave.data) == kept
