"""Requests whose headers are recognised by their form are carried out and answered as those that are parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.send_requests import short
from gateway.tests.broker.whole_broker import WholeBroker, sending
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.properties import build_properties
from wire.quick.known_forms import FormReader
from wire.quick.whole import start_of, whole_headers

PLAIN = {"UNIQ_KEY": "", "WAIT": "true"}
HALF = {"TRAN_MSG": "true", "UNIQ_KEY": "", "WAIT": "true", "PGROUP": "producers"}
TOPICS = ("orders", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "%RETRY%group", "ordered", "typed")


def _broker(path: Path, *, learns: bool = True, **changed: Any) -> WholeBroker:
    """A broker that learns the forms of headers, interpreted as well, or does not, compiled as well."""
    broker = WholeBroker(path, **changed)
    broker.conversation.server.whole_headers.update(whole_headers(learns=learns))
    return broker


def _recognised(broker: WholeBroker, code: RequestCode = RequestCode.SEND_MESSAGE_V2) -> int:
    """Return how many forms were of use."""
    reader = broker.conversation.server.whole_headers[start_of(code)]
    assert isinstance(reader, FormReader)
    return len(reader._forms)


def _sent(broker: WholeBroker, changed: dict[str, Any], body: bytes) -> list[object]:
    """The answers to five sends that are alike, and what is stored of them."""
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
        {"queue_id": 4},
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
def test_a_send_of_known_form_is_stored_as_one_that_is_parsed(tmp_path: Path, changed: dict[str, Any]) -> None:
    learning, parsing = _broker(tmp_path / "known"), _broker(tmp_path / "parsed", learns=False)
    known = _sent(learning, dict(changed), b"hello")
    assert _recognised(learning)
    assert known == _sent(parsing, dict(changed), b"hello")
    assert not _recognised(parsing)


def test_a_body_over_the_limit_is_refused_in_both(tmp_path: Path) -> None:
    broker = _broker(tmp_path / "store")
    answers = _sent(broker, {}, b"x" * (4 * 1024 * 1024 + 1))
    assert _recognised(broker)
    assert {answer[0] for answer in answers if isinstance(answer, tuple)} == {ResponseCode.MESSAGE_ILLEGAL}


def test_a_topic_whose_queues_are_taken_away_refuses_them(tmp_path: Path) -> None:
    broker = _broker(tmp_path / "store")
    producer = broker.connect()
    codes = []
    for number in range(6):
        if number == 4:
            broker.parts.topics.put(TopicConfig("orders", read_queue_nums=2, write_queue_nums=2))
        properties = build_properties({**PLAIN, "UNIQ_KEY": f"{number}"}).decode()
        header = short(sending(properties=properties, queue_id=3))
        codes.append(broker.ask(producer, RequestCode.SEND_MESSAGE_V2, header, b"x").code)
    assert _recognised(broker)
    assert codes == [ResponseCode.SUCCESS] * 4 + [ResponseCode.INVALID_PARAMETER] * 2


COMMIT: dict[str, Any] = {"commit_or_rollback": SysFlag.TRANSACTION_COMMIT}
ROLLBACK: dict[str, Any] = {"commit_or_rollback": SysFlag.TRANSACTION_ROLLBACK}
WRONG: list[dict[str, Any]] = [{"producer_group": "others"}, {"tran_state_table_offset": 99}, {"commit_log_offset": 1}]


def _ended(broker: WholeBroker) -> list[object]:
    """The answers to outcomes that fit and that do not, and what consumers see then."""
    producer = broker.connect()
    seen: list[object] = []
    for number, changed in enumerate([COMMIT, ROLLBACK] * 4 + [{**COMMIT, **wrong} for wrong in WRONG * 3]):
        half = broker.send(
            producer,
            body=b"%d" % number,
            sys_flag=SysFlag.TRANSACTION_PREPARED,
            properties={**HALF, "UNIQ_KEY": f"0A{number:X}"},
        ).ext_fields
        values: dict[str, Any] = {
            "topic": "orders",
            "producer_group": "producers",
            "tran_state_table_offset": int(half["queueOffset"]),
            "commit_log_offset": parse_offset_message_id(half["msgId"])[1],
            "msg_id": half["transactionId"],
            "transaction_id": half["transactionId"],
        }
        header = EndTransactionRequest(**{**values, **changed})
        answer = broker.ask(producer, RequestCode.END_TRANSACTION, header)
        seen.append((answer.code, answer.remark))
    return [*seen, *(message.body for message in broker.messages("orders"))]


def test_an_outcome_of_known_form_is_applied_as_one_that_is_parsed(tmp_path: Path) -> None:
    learning, parsing = _broker(tmp_path / "known"), _broker(tmp_path / "parsed", learns=False)
    known = _ended(learning)
    assert _recognised(learning, RequestCode.END_TRANSACTION) >= 2
    assert known == _ended(parsing)
    assert known[-4:] == [b"0", b"2", b"4", b"6"]


def test_a_read_only_broker_refuses_them_for_an_ordered_topic(tmp_path: Path) -> None:
    broker = _broker(tmp_path / "store", broker_permission=4)
    broker.parts.topics.put(TopicConfig("ordered", order=True))
    producer = broker.connect()
    codes = []
    for number in range(5):
        header = short(sending("ordered", properties=build_properties({**PLAIN, "UNIQ_KEY": f"{number}"}).decode()))
        codes.append(broker.ask(producer, RequestCode.SEND_MESSAGE_V2, header, b"x").code)
    assert _recognised(broker)
    assert codes == [ResponseCode.NO_PERMISSION] * 5
