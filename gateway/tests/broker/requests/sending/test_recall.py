"""RECALL_MESSAGE: the code of each bad recall, and what a good one leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.send import RecallMessageRequest
from wire.message.recall_handle import RecallHandle

LATER = str(START_MS + 10_001)
GOOD = RecallHandle("orders", "broker-a", LATER, "K1")


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    made = WholeBroker(tmp_path / "store", recall_message_enable=True)
    made.send(made.connect())
    return made


def recall(broker: WholeBroker, handle: str, topic: str = "orders") -> RemotingCommand:
    header = RecallMessageRequest(producer_group="g", topic=topic, recall_handle=handle)
    return broker.ask(broker.connect(), RequestCode.RECALL_MESSAGE, header)


def test_a_marker_waits_in_the_slot_of_the_message(broker: WholeBroker) -> None:
    answer = recall(broker, GOOD.build())
    assert (answer.code, answer.ext_fields["msgId"]) == (ResponseCode.SUCCESS, "K1")
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    (marker,) = broker.messages("rmq_sys_wheel_timer")
    properties = marker.property_map
    assert (properties["TIMER_DEL_UNIQKEY"], properties["UNIQ_KEY"]) == ("K1", "K1")
    assert properties["TIMER_OUT_MS"] == str(START_MS + 10_000)
    assert (properties["REAL_TOPIC"], properties["PGROUP"], properties["TAGS"]) == ("orders", "g", "_RECALL_TAG_")


def test_markers_may_name_the_topic(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", recall_message_enable=True, append_topic_for_timer_delete_key=True)
    broker.send(broker.connect())
    recall(broker, GOOD.build())
    assert broker.messages("rmq_sys_wheel_timer")[0].property_map["TIMER_DEL_UNIQKEY"] == "orders+K1"


@pytest.mark.parametrize("named", ["K1", "orders+K1"], ids=["as 5.5.0", "as 5.3.3"])
def test_a_marker_with_or_without_the_topic_takes_the_message_back(broker: WholeBroker, named: str) -> None:
    producer, at = broker.connect(), str(START_MS + 5_000)
    broker.send(producer, queue_id=1, body=b"back", properties={"UNIQ_KEY": "K1", "TIMER_DELIVER_MS": at})
    broker.send(producer, queue_id=1, body=b"stays", properties={"UNIQ_KEY": "K2", "TIMER_DELIVER_MS": at})
    broker.send(producer, body=b"0", properties={"TIMER_DEL_UNIQKEY": named, "TIMER_DELIVER_MS": at})
    broker.wait(7)
    assert [message.body for message in broker.messages("orders", 1)] == [b"stays"]


@pytest.mark.parametrize(
    ("handle", "topic", "code", "remark"),
    [
        ("no handle", "orders", ResponseCode.ILLEGAL_OPERATION, "recallHandle"),
        (GOOD._replace(topic="other").build(), "orders", ResponseCode.ILLEGAL_OPERATION, "of topic 'other'"),
        (GOOD._replace(broker_name="b").build(), "orders", ResponseCode.ILLEGAL_OPERATION, "of broker 'b'"),
        (GOOD._replace(timestamp=str(START_MS)).build(), "orders", ResponseCode.ILLEGAL_OPERATION, "was due"),
        (GOOD._replace(timestamp="soon").build(), "orders", ResponseCode.ILLEGAL_OPERATION, "was due"),
        (GOOD._replace(timestamp="9" * 18).build(), "orders", ResponseCode.ILLEGAL_OPERATION, "was due"),
        (GOOD._replace(unique_key="").build(), "orders", ResponseCode.ILLEGAL_OPERATION, "names no message"),
        (GOOD._replace(unique_key="K\x01v\x02").build(), "orders", ResponseCode.ILLEGAL_OPERATION, "names no message"),
        (GOOD.build(), "nowhere", ResponseCode.TOPIC_NOT_EXIST, "nowhere"),
    ],
)
def test_bad_recalls_are_refused(broker: WholeBroker, handle: str, topic: str, code: int, remark: str) -> None:
    answer = recall(broker, handle, topic)
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert broker.messages("rmq_sys_wheel_timer") == []


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"recall_message_enable": False}, ResponseCode.NO_PERMISSION),
        (
            {"broker_permission": 4, "allow_recall_when_broker_not_writeable": False},
            ResponseCode.SERVICE_NOT_AVAILABLE,
        ),
        ({"broker_permission": 4}, ResponseCode.SUCCESS),
        ({"timer_wheel_enable": False}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_settings_decide_who_may(tmp_path: Path, settings: dict[str, Any], code: int) -> None:
    broker = WholeBroker(tmp_path / "store", **{"recall_message_enable": True, **settings})
    broker.send(broker.connect())
    assert recall(broker, GOOD.build()).code == code
