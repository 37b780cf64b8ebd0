"""A real controller of Apache RocketMQ 5.5.0: gateways that replace a dead master, also beside a broker of 5.5.0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import frames
from compat_tests.admin_tool import admin_tool
from compat_tests.environment import wait_until
from compat_tests.failovers import EPOCHS, controller, running_pair
from compat_tests.java_client import JavaClient
from compat_tests.mixed_groups import mixed_group
from compat_tests.test_replication import wait_for_equal_logs
from compat_tests.test_switches import clients_go_on
from wire.bodies.fastjson import parse_json

LONGEST_S = 15.0


@pytest.fixture(scope="module")
def controllers() -> Iterator[tuple[str, int]]:
    with controller() as address:
        yield address


def test_a_dead_master_is_replaced_and_comes_back_as_a_slave(controllers: tuple[str, int], tmp_path: Path) -> None:
    with running_pair(tmp_path, controllers) as pair:
        assert (tmp_path / "b1" / "brokerIdentity").read_text() == "DefaultCluster#broker-a#1"
        assert pair.send(pair.brokers[0], 30)
        assert pair.switch() <= LONGEST_S
        pair.brokers[1].start()
        pair.wait_for_set()
        host, port = controllers
        with admin_tool(pair.names.nameserver) as tool:
            told = "\n".join(tool.run(f"getSyncStateSet -a {host}:{port} -b broker-a"))
            epochs_told = "\n".join(tool.run("getBrokerEpoch -c DefaultCluster"))
        assert "#MasterBrokerId\t2" in told, told
        assert told.count("InSyncReplica:") == 2, told
        assert epochs_told.count("epoch=2") == 2, epochs_told
        epochs = [frames.ask(one.address, frames.request(EPOCHS)) for one in pair.brokers]
        assert all(one is not None and one.code == 0 for one in epochs)
        assert len({tuple(map(str, parse_json(one.body)["epochList"])) for one in epochs if one is not None}) == 1


def test_a_broker_of_apaches_takes_over_and_the_end_that_it_lacked_is_cut(
    controllers: tuple[str, int], tmp_path: Path
) -> None:
    with mixed_group(tmp_path / "mixed", controllers, ["gateway", "apache"]) as group:
        group.start()
        master, slave = group.members
        group.send_all(master, "first", 20)
        group.wait_for_equal()
        group.lose_place(master, slave, "second")
        group.judge()
        assert list((master.data / "recovered").iterdir()), "what was cut off is kept"


def test_clients_go_on_when_a_controller_replaces_a_dead_master(
    newest_client: JavaClient, controllers: tuple[str, int], tmp_path: Path
) -> None:
    with running_pair(tmp_path, controllers, {"brokerName": "mq-b"}) as pair:

        def die_and_return() -> None:
            dead, _ = pair.brokers
            dead.kill()
            wait_until(lambda: pair.sync_state_set() == [2], "another master")
            dead.start()
            pair.wait_for_set()

        clients_go_on(newest_client, pair.names, "controlled", die_and_return)
        wait_for_equal_logs(*(broker.data for broker in pair.brokers))
