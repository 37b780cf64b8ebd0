"""The state of replication: the slaves of a master, what a slave copies, and the check point of the timer."""

from __future__ import annotations

from gateway.broker.desk import DeskRequests
from gateway.errors import RequestRefused
from gateway.remoting.declared import CLUSTER_GET, SERVED
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from wire.bodies.tools.statistics import ReplicationState
from wire.codes import RequestCode, ResponseCode


class Replication(DeskRequests):
    """Answers GET_TIMER_CHECK_POINT (60) and GET_BROKER_HA_STATUS (907)."""

    @answers(RequestCode.GET_BROKER_HA_STATUS, None, CLUSTER_GET, slave=SERVED)
    def state(self, _request: Request, _header: None) -> Answer:
        """Answer with the end of the log and how far each slave is, or with what a slave copies."""
        if self._desk.slave is not None:
            return Answer(body=self._desk.slave.state().build())
        end, master = self._desk.store.max_commit_log_offset, self._desk.master
        state = ReplicationState(master_commit_log_max_offset=end) if master is None else master.state(end)
        return Answer(body=state.build())

    @answers(RequestCode.GET_TIMER_CHECK_POINT, None, CLUSTER_GET, slave=SERVED)
    def timer_checkpoint(self, _request: Request, _header: None) -> Answer:
        """Answer with the 56 bytes of the timer's check point that was saved last."""
        if self._desk.timers is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, "there is no timer: a slave has none, or timerWheelEnable is false"
            )
        return Answer(body=self._desk.timers.checkpoint())
