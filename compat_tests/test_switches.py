"""Stock Java clients go on across a planned switch; ``test_controller`` has the switch by a controller."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, gateway_command
from compat_tests.replica_faults.ending import stop_and_judge
from compat_tests.replica_faults.run import streams_of_a_pair
from compat_tests.soak.findings import Findings
from compat_tests.soak.load import Load
from compat_tests.test_replication import wait_for_equal_logs
from compat_tests.test_slave import Broker, NameServer, own_address
from gateway.client.testing.server import free_port

NAMED = {**QUICK, "brokerName": "mq-a", "mappedFileSizeCommitLog": str(10 * 1024 * 1024)}


def clients_go_on(client: JavaClient, names: NameServer, tag: str, switch: Callable[[], None]) -> None:
    """Let producers, consumers and transactions of a stock client work across a switch, and judge all of it."""
    findings = Findings()
    load = Load(client, names.nameserver, findings, tag=tag, longest_s=120, streams=streams_of_a_pair())
    load.start()
    load.wait_for_progress()
    switch()
    load.wait_for_progress()
    plain, transactions = stop_and_judge(load)
    assert findings.is_clean, findings.sentences
    assert plain.acknowledged > 0
    assert (plain.lost, plain.moved, plain.doubled) == (0, 0, 0), plain
    assert transactions.acknowledged > 0
    assert (transactions.lost, transactions.flipped, transactions.doubled) == (0, 0, 0), transactions


def test_clients_go_on_across_a_planned_switch(newest_client: JavaClient, tmp_path: Path) -> None:
    names = NameServer(tmp_path)
    roles = {"0": "SYNC_MASTER", "1": "SLAVE"}
    own = {**NAMED, "inSyncReplicas": "2", "gateway.advertise": own_address()}
    brokers = [
        Broker(
            names,
            tmp_path / f"b{number}",
            {**own, "brokerId": number, "brokerRole": role, "haListenPort": str(free_port())},
        )
        for number, role in roles.items()
    ]

    def promote() -> None:
        command = [*gateway_command(), "failover", "promote", "mq-a", "-n", names.nameserver, "--id", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        for server in (names, *brokers):
            server.start()
        clients_go_on(newest_client, names, "planned", promote)
        wait_for_equal_logs(*(broker.data for broker in brokers))
    finally:
        for server in (*brokers, names):
            server.kill()
