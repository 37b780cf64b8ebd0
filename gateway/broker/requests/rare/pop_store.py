"""Where pops are kept, as operators of Apache RocketMQ may change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.remoting.declared import Right
from gateway.remoting.dispatch import Answer
from wire.codes import RequestCode

if TYPE_CHECKING:
    from gateway.broker.desk import Desk
    from gateway.remoting.dispatch import Dispatch, Request


class PopStore:
    """Answers POP_ROLLBACK (200056): check points that are in RocksDB go back to the revive topic.

    They are always there, so nothing has to be done. Upstream answers SUCCESS, too, also without such a database.
    """

    def __init__(self, _desk: Desk) -> None:
        """Nothing of a desk is needed."""

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.POP_ROLLBACK, None, self.roll_back, Right.ADMIN)

    def roll_back(self, _request: Request, _header: None) -> Answer:
        """Everything is where it is asked to be."""
        return Answer()
