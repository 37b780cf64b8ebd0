"""One place decides about every request."""

from __future__ import annotations

from pathlib import Path

from gateway.broker.request_loader import load_requests
from gateway.errors import RequestRefused
from gateway.remoting.declared import Right
from gateway.remoting.dispatch import Dispatch, Request
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Conversation
from wire.codes import ResponseCode


def refuse(request: Request, right: Right) -> None:
    raise RequestRefused(ResponseCode.NO_PERMISSION, str(right))


def test_every_request_of_a_broker_passes_admission(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    dispatch = Dispatch(refuse)
    load_requests(broker.parts, dispatch)
    peer = Conversation(dispatch).connect()
    entries = dispatch.entries()
    assert [entry.code for entry in entries] == [entry.code for entry in broker.conversation.dispatch.entries()]
    for entry in entries:
        answer = peer.ask(entry.code)
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, str(entry.right)), entry.code
    broker.stop()
