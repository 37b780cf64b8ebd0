"""Sending messages with a delay level or a time: where they wait, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.broker.send_requests import refused
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import ResponseCode
from wire.message.recall_handle import parse_recall_handle


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def test_a_delayed_message_is_answered_with_its_place_in_the_schedule_topic(broker: WholeBroker) -> None:
    producer = broker.connect()
    for _ in range(2):
        answer = broker.send(producer, queue_id=3, properties={"DELAY": "99"})
    assert (answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == ("3", "1")
    waiting = broker.messages("SCHEDULE_TOPIC_XXXX", 3)[0]
    assert (waiting.property_map["DELAY"], waiting.property_map["REAL_TOPIC"]) == ("4", "orders")
    assert broker.messages("orders", 3) == []


@pytest.mark.parametrize("name", ["TIMER_DELAY_MS", "TIMER_DELAY_SEC"])
def test_a_timer_message_is_answered_with_its_place_in_the_timer_topic_and_its_handle(
    broker: WholeBroker, name: str
) -> None:
    for _ in range(2):
        answer = broker.send(broker.connect(), queue_id=3, properties={name: "5000", "UNIQ_KEY": "K1"})
    fields = answer.ext_fields
    assert (fields["queueId"], fields["queueOffset"], fields["transactionId"]) == ("3", "1", "K1")
    assert parse_recall_handle(fields["recallHandle"])[::3] == ("orders", "K1")
    waiting = broker.messages("rmq_sys_wheel_timer")[0]
    assert (waiting.property_map["REAL_TOPIC"], waiting.property_map["REAL_QID"]) == ("orders", "3")
    assert broker.messages("orders", 3) == []


@pytest.mark.parametrize("text", ["soon", "1.5", "99999999999"])
def test_a_delay_level_that_is_no_number_is_refused(broker: WholeBroker, text: str) -> None:
    answer = broker.send(broker.connect(), properties={"DELAY": text})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert text in (answer.remark or "")
    assert broker.messages("orders") == []
    half = broker.send(broker.connect(), properties={"DELAY": text, "TRAN_MSG": "true", "PGROUP": "p"}, sys_flag=4)
    assert half.code == ResponseCode.SYSTEM_ERROR


def test_a_delay_level_wins_over_a_time(broker: WholeBroker) -> None:
    answer = broker.send(broker.connect(), properties={"TIMER_DELAY_SEC": "999999", "DELAY": "1"})
    assert answer.code == ResponseCode.SUCCESS
    assert "recallHandle" not in answer.ext_fields
    assert "TIMER_DELAY_SEC" not in broker.messages("SCHEDULE_TOPIC_XXXX")[0].property_map


def test_a_time_beyond_the_limit_is_refused(broker: WholeBroker) -> None:
    code, remark = refused(broker.send(broker.connect(), properties={"TIMER_DELAY_SEC": "999999"}))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert "timerMaxDelaySec" in remark


def test_only_the_broker_writes_to_the_timer_topic(broker: WholeBroker) -> None:
    code, _ = refused(broker.send(broker.connect(), "rmq_sys_wheel_timer"))
    assert code == ResponseCode.NO_PERMISSION
