"""Check points of pops are in the revive topic: moving them back there is no work."""

from __future__ import annotations

from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode


def test_a_roll_back_of_pops_succeeds(broker: WholeBroker) -> None:
    answer = broker.ask(broker.connect(), RequestCode.POP_ROLLBACK)
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
