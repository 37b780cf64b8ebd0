"""A real controller of Apache RocketMQ 5.5.0 and two gateways: ids, a dead master, and what mqadmin shows."""

from __future__ import annotations

from pathlib import Path

from compat_tests import frames
from compat_tests.admin_tool import admin_tool
from compat_tests.failovers import EPOCHS, Pair, controller
from wire.bodies.fastjson import parse_json

LONGEST_S = 15.0


def test_a_dead_master_is_replaced_and_comes_back_as_a_slave(tmp_path: Path) -> None:
    with controller() as address:
        pair = Pair(tmp_path, address)
        try:
            pair.start()
            assert (tmp_path / "b1" / "brokerIdentity").read_text() == "DefaultCluster#broker-a#1"
            assert pair.send(pair.brokers[0], 30)
            assert pair.switch() <= LONGEST_S
            pair.brokers[1].start()
            pair.wait_for_set()
            host, port = address
            with admin_tool(pair.names.nameserver) as tool:
                told = "\n".join(tool.run(f"getSyncStateSet -a {host}:{port} -b broker-a"))
                epochs_told = "\n".join(tool.run("getBrokerEpoch -c DefaultCluster"))
            assert "#MasterBrokerId\t2" in told, told
            assert told.count("InSyncReplica:") == 2, told
            assert epochs_told.count("epoch=2") == 2, epochs_told
            epochs = [frames.ask(one.address, frames.request(EPOCHS)) for one in pair.brokers]
            assert all(one is not None and one.code == 0 for one in epochs)
            assert len({tuple(map(str, parse_json(one.body)["epochList"])) for one in epochs if one is not None}) == 1
        finally:
            pair.stop()
