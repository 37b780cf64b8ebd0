from __future__ import annotations

from wire.bodies.tools.statistics import ReplicaConnection, ReplicationState
from wire.tests.bodies.strategies import assert_comes_back


def test_a_master_without_replicas_is_as_a_java_broker_shows_it() -> None:
    assert ReplicationState(master_commit_log_max_offset=7).build() == (
        b'{"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":7}'
    )


def test_replicas_come_back() -> None:
    assert_comes_back(ReplicationState(True, 9, 1, (ReplicaConnection("10.0.0.1:10912", 7, 2, True, 1, 3),)))
