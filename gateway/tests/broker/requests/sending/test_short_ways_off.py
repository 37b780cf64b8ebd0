"""Sends, batches and half messages without any quick part (gateway.shortWays=false)."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from gateway.tests.broker.send_requests import BATCH, batch, short
from gateway.tests.broker.whole_broker import WholeBroker, sending
from wire.codes import RequestCode, ResponseCode
from wire.compiled import IS_COMPILED
from wire.message.flags import SysFlag
from wire.quick.answer_form import AnswerForm
from wire.quick.message_run import MessageRun

HALF = {"TRAN_MSG": "true", "WAIT": "true", "PGROUP": "producers"}


def refuse(*_: object) -> NoReturn:
    raise AssertionError("a quick part ran")


@pytest.mark.skipif(IS_COMPILED, reason="methods of compiled classes cannot be replaced")
@pytest.mark.parametrize("short_ways", [False, True])
def test_sends_batches_and_half_messages_are_stored_and_answered_without_quick_parts(
    short_ways: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = WholeBroker(tmp_path, short_ways=short_ways)
    producer = broker.connect()
    monkeypatch.setattr(AnswerForm, "begin", refuse)
    monkeypatch.setattr(MessageRun, "build", refuse)
    rows = batch((b"one", {"UNIQ_KEY": "0B1"}), (b"two", {"UNIQ_KEY": "0B2"}))
    requests = [
        (BATCH, short(sending(properties={"WAIT": "true"}, batch=True)), rows),
        *((RequestCode.SEND_MESSAGE_V2, short(sending(properties={"UNIQ_KEY": f"0A{n}"})), b"x") for n in range(3)),
        (
            RequestCode.SEND_MESSAGE_V2,
            short(sending(properties={**HALF, "UNIQ_KEY": "0C1"}, sys_flag=SysFlag.TRANSACTION_PREPARED)),
            b"half",
        ),
    ]
    answers = [broker.ask_all(producer, code, header, body) for code, header, body in requests]
    codes = [[answer.code for answer in each] for each in answers]
    worked = [[ResponseCode.SUCCESS]] * len(requests)
    assert (codes == worked) is not short_ways, "replaced methods show that the quick parts run where they are on"
    if not short_ways:
        assert broker.parts.transactions.pending.count == 1
        assert len(broker.messages("orders")) == 5
