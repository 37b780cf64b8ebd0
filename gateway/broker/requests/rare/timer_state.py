"""The state of the timer, for slaves that ask for it."""

from __future__ import annotations

from gateway.broker.desk import Desk
from gateway.errors import RequestRefused
from gateway.remoting.declared import Right
from gateway.remoting.dispatch import Answer, Dispatch, Request
from wire.codes import RequestCode, ResponseCode


class TimerState:
    """Answers GET_TIMER_CHECK_POINT (60)."""

    def __init__(self, desk: Desk) -> None:
        self._timers = desk.timers

    def register(self, dispatch: Dispatch) -> None:
        """Register the request codes that this class answers."""
        dispatch.answers(RequestCode.GET_TIMER_CHECK_POINT, None, self.checkpoint, Right.ADMIN)

    def checkpoint(self, _request: Request, _header: None) -> Answer:
        """Answer with the 56 bytes of the check point that was saved last."""
        if self._timers is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "there is no timer: timerWheelEnable is false")
        return Answer(body=self._timers.checkpoint())
