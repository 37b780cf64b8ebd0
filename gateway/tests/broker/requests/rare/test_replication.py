"""A master without replicas says so."""

from __future__ import annotations

from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.tools.statistics import ReplicationState
from wire.codes import RequestCode


def test_a_gateway_is_a_master_without_replicas(broker: WholeBroker) -> None:
    answer = broker.ask(broker.connect(), RequestCode.GET_BROKER_HA_STATUS)
    state = ReplicationState.parse(answer.body)
    assert (state.master, state.in_sync_slave_nums, state.connections) == (True, 0, ())
    assert state.master_commit_log_max_offset == broker.parts.store.max_commit_log_offset > 0
