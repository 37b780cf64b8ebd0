"""Sends whose headers are recognised by their form are stored and answered as those that are parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.send_requests import short
from gateway.tests.broker.whole_broker import WholeBroker, sending
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.send import ShortSendMessageRequest
from wire.headers.sent import SendReader
from wire.headers.whole import WHOLE_HEADERS, decoder
from wire.message.flags import SysFlag
from wire.message.properties import build_properties

START = b'{"code":310,'
PLAIN = {"UNIQ_KEY": "", "WAIT": "true"}
HALF = {"TRAN_MSG": "true", "UNIQ_KEY": "", "WAIT": "true", "PGROUP": "producers"}
TOPICS = ("orders", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "%RETRY%group", "ordered", "typed")


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> SendReader:
    reader = SendReader(decoder(ShortSendMessageRequest), learns=True)
    monkeypatch.setitem(WHOLE_HEADERS, START, reader)
    return reader


def _has_recognised(reader: SendReader) -> bool:
    return bool(reader._forms)  # those that were of use


def _sent(path: Path, changed: dict[str, Any], body: bytes) -> list[object]:
    """The answers to five sends that are alike, and what is stored of them."""
    broker = WholeBroker(path)
    broker.parts.topics.put(TopicConfig("ordered", order=True))
    broker.parts.topics.put(TopicConfig("typed", attributes={"message.type": "FIFO"}))
    producer = broker.connect()
    properties = changed.pop("properties", PLAIN)
    topic = changed.pop("topic", "orders")
    seen: list[object] = []
    for number in range(5):
        own = build_properties({**properties, "UNIQ_KEY": f"0A{number:X}"}).decode()
        header = short(sending(topic, properties=own, **changed))
        answer = broker.ask(producer, RequestCode.SEND_MESSAGE_V2, header, body)
        seen.append((answer.code, answer.remark, answer.ext_fields))
    for name in TOPICS:
        for queue_id in range(4):
            stored = broker.messages(name, queue_id)
            seen += [(name, queue_id, message.body, message.properties, message.sys_flag) for message in stored]
            seen += [(message.born_at_ms, message.flag, message.reconsume_times) for message in stored]
    return seen


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"queue_id": 3, "flag": 5, "born_timestamp": 17},
        {"queue_id": 99},
        {"reconsume_times": 2},
        {"sys_flag": SysFlag.COMPRESSED},
        {"sys_flag": SysFlag.TRANSACTION_MASK},
        {"topic": "ordered"},
        {"topic": "typed"},
        {"topic": "TBW102"},
        {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"},
        {"topic": "%RETRY%group"},
        {"topic": "not/a/name"},
        {"properties": {**PLAIN, "WAIT": "false"}},
        {"properties": {**PLAIN, "TAGS": "a", "KEYS": "k1 k2"}},
        {"properties": {**PLAIN, "DELAY": "1"}},
        {"properties": {**PLAIN, "CLUSTER": "mine"}},
        {"properties": {"TAGS": "a", "UNIQ_KEY": ""}},
        {"properties": HALF, "sys_flag": SysFlag.TRANSACTION_PREPARED},
        {"properties": {**HALF, "PGROUP": ""}, "sys_flag": SysFlag.TRANSACTION_PREPARED},
        {"properties": {**HALF, "DELAY": "2"}, "sys_flag": SysFlag.TRANSACTION_PREPARED},
    ],
)
def test_a_send_of_known_form_is_stored_as_one_that_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learning: SendReader, changed: dict[str, Any]
) -> None:
    known = _sent(tmp_path / "known", dict(changed), b"hello")
    assert _has_recognised(learning)
    monkeypatch.setitem(WHOLE_HEADERS, START, SendReader(decoder(ShortSendMessageRequest), learns=False))
    assert known == _sent(tmp_path / "parsed", dict(changed), b"hello")


def test_a_body_over_the_limit_is_refused_in_both(tmp_path: Path, learning: SendReader) -> None:
    answers = _sent(tmp_path / "store", {}, b"x" * (4 * 1024 * 1024 + 1))
    assert _has_recognised(learning)
    assert {answer[0] for answer in answers if isinstance(answer, tuple)} == {ResponseCode.MESSAGE_ILLEGAL}


def test_a_topic_whose_queues_are_taken_away_refuses_them(tmp_path: Path, learning: SendReader) -> None:
    broker = WholeBroker(tmp_path / "store")
    producer = broker.connect()
    codes = []
    for number in range(6):
        if number == 4:
            broker.parts.topics.put(TopicConfig("orders", read_queue_nums=2, write_queue_nums=2))
        properties = build_properties({**PLAIN, "UNIQ_KEY": f"{number}"}).decode()
        header = short(sending(properties=properties, queue_id=3))
        codes.append(broker.ask(producer, RequestCode.SEND_MESSAGE_V2, header, b"x").code)
    assert _has_recognised(learning)
    assert codes == [ResponseCode.SUCCESS] * 4 + [ResponseCode.INVALID_PARAMETER] * 2
