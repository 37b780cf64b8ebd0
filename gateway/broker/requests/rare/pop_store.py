"""The place where pops are kept, which operators of Apache RocketMQ may change."""

from __future__ import annotations

from gateway.broker.desk import Desk
from gateway.remoting.declared import Right
from gateway.remoting.dispatch import Answer, Dispatch, Request
from wire.codes import RequestCode


class PopStore:
    """Answers POP_ROLLBACK (200056): check points in RocksDB go back to the revive topic.

    Here all check points are in the revive topic, so nothing has to be done. Upstream also answers SUCCESS without such
    a database.
    """

    def __init__(self, _desk: Desk) -> None:
        """Take no part of the desk, because none is needed."""

    def register(self, dispatch: Dispatch) -> None:
        """Register the request codes that this class answers."""
        dispatch.answers(RequestCode.POP_ROLLBACK, None, self.roll_back, Right.ADMIN)

    def roll_back(self, _request: Request, _header: None) -> Answer:
        """Answer SUCCESS: all check points are in the revive topic already."""
        return Answer()
