"""The state of the replicas: a gateway is a master without replicas."""

from __future__ import annotations

from gateway.broker.desk import Desk
from gateway.remoting.declared import Right
from gateway.remoting.dispatch import Answer, Dispatch, Request
from wire.bodies.tools.statistics import ReplicationState
from wire.codes import RequestCode


class Replication:
    """Answers GET_BROKER_HA_STATUS (907)."""

    def __init__(self, desk: Desk) -> None:
        self._store = desk.store

    def register(self, dispatch: Dispatch) -> None:
        """Register the request codes that this class answers."""
        dispatch.answers(RequestCode.GET_BROKER_HA_STATUS, None, self.state, Right.ADMIN)

    def state(self, _request: Request, _header: None) -> Answer:
        """Answer with the end of the log; there are no replicas to compare it with."""
        end = self._store.max_commit_log_offset
        return Answer(body=ReplicationState(master_commit_log_max_offset=end).build())
