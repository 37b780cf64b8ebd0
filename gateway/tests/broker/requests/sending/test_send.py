"""Sending: what is refused in which order, what is stored, and what the producer reads in the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.sending import batches, send, stored_properties
from gateway.broker.requests.sending.stored_properties import MAX_TEXT_CHARACTERS
from gateway.tests.broker.send_requests import refused, short
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, sending
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.message.message_id import parse_offset_message_id, unpack_host
from wire.message.properties import parse_properties


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def test_the_answer_tells_where_the_message_is(broker: WholeBroker) -> None:
    producer = broker.connect()
    broker.send(producer, queue_id=2)
    answer = broker.send(producer, queue_id=2, properties={"UNIQ_KEY": "0A0B", "KEYS": "k"}, flag=7)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    fields = answer.ext_fields
    host, log_offset = parse_offset_message_id(fields.pop("msgId"))
    assert unpack_host(host) == ("10.0.0.1", 10911)
    assert fields == {
        "queueId": "2",
        "queueOffset": "1",
        "transactionId": "0A0B",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    stored = broker.messages("orders", 2)[1]
    assert (stored.commit_log_offset, stored.body, stored.flag) == (log_offset, b"hello", 7)
    assert (stored.born_at_ms, stored.stored_at_ms, unpack_host(stored.born_host)[0]) == (
        START_MS - 5,
        START_MS,
        "192.0.2.7",
    )
    assert stored.property_map == {
        "UNIQ_KEY": "0A0B",
        "KEYS": "k",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }


def test_one_letter_headers_mean_the_same(broker: WholeBroker) -> None:
    header = short(sending(properties="TAGS\x01a"))
    assert broker.ask(broker.connect(), RequestCode.SEND_MESSAGE_V2, header, b"x").code == ResponseCode.SUCCESS
    assert broker.messages("orders")[0].property_map["TAGS"] == "a"


def test_a_one_way_message_is_stored_and_not_answered(broker: WholeBroker) -> None:
    producer = broker.connect()
    assert broker.ask_all(producer, RequestCode.SEND_MESSAGE, sending(), b"x", oneway=True) == []
    assert broker.ask_all(producer, RequestCode.SEND_MESSAGE, sending("../../x"), b"x", oneway=True) == []
    assert [message.body for message in broker.messages("orders")] == [b"x"]


def test_a_message_gets_a_unique_key_when_its_client_gave_none(broker: WholeBroker) -> None:
    key = broker.send(broker.connect()).ext_fields["transactionId"]
    assert len(key) == 32
    assert broker.messages("orders")[0].unique_key == key


def test_properties_of_an_earlier_broker_are_replaced_and_pop_marks_removed(broker: WholeBroker) -> None:
    broker.send(broker.connect(), properties={"CLUSTER": "other", "MSG_REGION": "far", "POP_CK": "x", "mine": "1"})
    stored = broker.messages("orders")[0].property_map
    assert (stored["CLUSTER"], stored["MSG_REGION"], stored["mine"]) == ("DefaultCluster", "DefaultRegion", "1")
    assert "POP_CK" not in stored


def test_messages_that_are_alike_are_stored_alike(broker: WholeBroker) -> None:
    producer = broker.connect()
    keys = [f"{number:032X}" for number in range(4)]
    for key in keys:
        answer = broker.send(producer, properties={"UNIQ_KEY": key, "WAIT": "true", "TAGS": "a"})
        assert (answer.code, answer.ext_fields["transactionId"]) == (ResponseCode.SUCCESS, key)
    stored = broker.messages("orders")
    assert [message.unique_key for message in stored] == keys
    texts = [message.properties.decode().replace(key, "?") for message, key in zip(stored, keys, strict=True)]
    ours = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
    assert texts == [f"UNIQ_KEY\x01?\x02WAIT\x01true\x02TAGS\x01a\x02{ours}"] * 4


def test_a_message_that_differs_from_those_before_it_is_told_apart(broker: WholeBroker) -> None:
    producer = broker.connect()
    for number in range(3):
        broker.send(producer, properties={"UNIQ_KEY": f"{number}", "WAIT": "true"})
    for number in range(3):
        broker.send(producer, properties={"UNIQ_KEY": f"{number}", "WAIT": "true", "DELAY": "1"})
    assert len(broker.messages("orders")) == 3
    assert len(broker.messages("SCHEDULE_TOPIC_XXXX", 0)) == 3


# -- the checks, in their order ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "value"), [("queueId", None), ("queueId", "x"), ("bornTimestamp", "1.5")])
def test_a_missing_or_wrong_field_is_a_system_error_that_names_it(
    broker: WholeBroker, field: str, value: str | None
) -> None:
    fields = {"producerGroup": "g", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
    del fields[field]
    if value is not None:
        fields[field] = value
    answer = broker.ask(broker.connect(), RequestCode.SEND_MESSAGE, fields=fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in (answer.remark or "")


@pytest.mark.parametrize("topic", ["../../x", "a b", "x" * 128, "", "ümlaut", "%RETRY%../x"])
def test_invalid_topic_names_are_refused_and_leave_nothing_behind(broker: WholeBroker, topic: str) -> None:
    code, remark = refused(broker.send(broker.connect(), topic))
    assert code == ResponseCode.INVALID_PARAMETER
    assert "topic" in remark
    assert broker.parts.topics.get(topic) is None


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"])
def test_topics_of_the_broker_itself_take_nothing_from_clients(broker: WholeBroker, topic: str) -> None:
    assert refused(broker.send(broker.connect(), topic))[0] == ResponseCode.NO_PERMISSION


def test_a_first_send_creates_the_topic_with_as_many_queues_as_asked_for(broker: WholeBroker) -> None:
    producer = broker.connect()
    assert broker.send(producer, queue_id=3).code == ResponseCode.SUCCESS
    assert broker.parts.topics.get("orders") == TopicConfig("orders", 4, 4, 6)
    broker.send(producer, "many", default_topic_queue_nums=1_000)
    assert broker.parts.topics.get("many") == TopicConfig("many", 8, 8, 6)


@pytest.mark.parametrize("default_topic", ["nothing", "orders"])
def test_without_a_default_topic_to_inherit_from_nothing_is_created(broker: WholeBroker, default_topic: str) -> None:
    producer = broker.connect()
    broker.send(producer, "orders")
    code, remark = refused(broker.send(producer, "missing", default_topic=default_topic))
    assert code == ResponseCode.TOPIC_NOT_EXIST
    assert remark.startswith("topic[missing] not exist, apply first please!")


def test_automatic_creation_can_be_switched_off(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", auto_create_topic_enable=False)
    assert refused(broker.send(broker.connect()))[0] == ResponseCode.TOPIC_NOT_EXIST


def test_a_read_only_broker_refuses_ordered_topics_alone(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", broker_permission=4)
    producer = broker.connect()
    broker.parts.topics.put(TopicConfig("ordered", 1, 1, 6, order=True))
    assert refused(broker.send(producer, "ordered"))[0] == ResponseCode.NO_PERMISSION
    assert broker.send(producer, "orders").code == ResponseCode.SUCCESS


def test_queue_ids_are_checked_against_the_larger_number_of_queues(broker: WholeBroker) -> None:
    producer = broker.connect()
    broker.parts.topics.put(TopicConfig("shrunk", read_queue_nums=8, write_queue_nums=4))
    assert broker.send(producer, "shrunk", queue_id=7).code == ResponseCode.SUCCESS
    code, remark = refused(broker.send(producer, "shrunk", queue_id=8))
    assert code == ResponseCode.INVALID_PARAMETER
    assert "queueId[8] is illegal" in remark


def test_a_negative_queue_id_lets_the_broker_choose_among_the_write_queues(broker: WholeBroker) -> None:
    broker.parts.topics.put(TopicConfig("shrunk", read_queue_nums=8, write_queue_nums=2))
    producer = broker.connect()
    chosen = {broker.send(producer, "shrunk", queue_id=-1).ext_fields["queueId"] for _ in range(24)}
    assert chosen == {"0", "1"}


def test_limits_of_body_and_properties(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", max_message_size=1_000)
    producer = broker.connect()
    assert broker.send(producer, body=b"x" * 1_000).code == ResponseCode.SUCCESS
    code, remark = refused(broker.send(producer, body=b"x" * 1_001))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert "1001 bytes is over the limit of 1000" in remark
    code, remark = refused(broker.send(producer, properties={"k": "v" * 32_767}))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert "properties" in remark
    assert broker.send(producer).ext_fields["queueOffset"] == "1"


def test_a_store_that_takes_nothing_is_service_not_available(broker: WholeBroker) -> None:
    producer = broker.connect()
    broker.send(producer)
    broker.parts.store.close()
    code, remark = refused(broker.send(producer))
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert remark == "service not available now: the store is closed"


# -- retries that clients send themselves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "version", "topic"),
    [
        ({"reconsume_times": 16}, 513, "%RETRY%group"),
        ({"reconsume_times": 17}, 513, "%DLQ%group"),
        ({"reconsume_times": 3, "max_reconsume_times": 2}, 513, "%DLQ%group"),
        ({"reconsume_times": 3, "max_reconsume_times": 2}, 120, "%RETRY%group"),
        ({"reconsume_times": 20, "max_reconsume_times": 30}, 121, "%RETRY%group"),
    ],
)
def test_a_client_s_own_retry_goes_to_the_dead_letters_after_the_last(
    broker: WholeBroker, fields: dict[str, Any], version: int, topic: str
) -> None:
    answer = broker.send(broker.connect(), "%RETRY%group", version=version, **fields)
    assert (answer.code, answer.ext_fields["queueId"]) == (ResponseCode.SUCCESS, "0")
    [stored] = broker.messages(topic)
    assert stored.reconsume_times == fields["reconsume_times"]
    config = broker.parts.topics.get(topic)
    assert config is not None
    assert (config.read_queue_nums, config.perm) == (1, 6)


def test_a_delayed_retry_waits_and_a_dead_letter_does_not(broker: WholeBroker) -> None:
    producer = broker.connect()
    delayed = {"DELAY": "3", "UNIQ_KEY": "K", "TRAN_MSG": "true"}
    broker.send(producer, "%RETRY%group", reconsume_times=1, properties=delayed)
    assert broker.messages("SCHEDULE_TOPIC_XXXX", 2)[0].property_map["REAL_TOPIC"] == "%RETRY%group"
    answer = broker.send(producer, "%RETRY%group", reconsume_times=17, properties={"DELAY": "3"})
    [dead] = broker.messages("%DLQ%group")
    assert dead.property_map["DELAY"] == "-1"
    assert answer.ext_fields["transactionId"] == dead.unique_key


def test_a_retry_of_a_group_that_may_not_be_made_is_refused(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", auto_create_subscription_group=False)
    code, remark = refused(broker.send(broker.connect(), "%RETRY%group"))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "group" in remark


# -- types and priorities of 5.x --------------------------------------------------------------------------------


def typed(broker: WholeBroker, topic: str, message_type: str) -> None:
    broker.parts.topics.put(TopicConfig(topic, 4, 4, 6, attributes={"message.type": message_type}))


def test_a_topic_takes_messages_of_its_type_only_where_that_is_checked(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_topic_message_type_check=True)
    producer = broker.connect()
    typed(broker, "later", "DELAY")
    code, remark = refused(broker.send(producer, "later"))
    assert (code, remark) == (
        ResponseCode.MESSAGE_ILLEGAL,
        "TopicMessageType validate failed, the expected type is DELAY, but actual type is NORMAL",
    )
    delayed = {"DELAY": "1"}
    assert broker.send(producer, "later", properties=delayed).code == ResponseCode.SUCCESS
    assert refused(broker.send(producer, "orders", properties=delayed))[0] == ResponseCode.MESSAGE_ILLEGAL
    assert broker.send(producer, "orders").code == ResponseCode.SUCCESS
    assert broker.send(producer, "%RETRY%group", properties=delayed).code == ResponseCode.SUCCESS
    assert broker.send(producer, "broker-a", properties=delayed).code == ResponseCode.SUCCESS  # the broker's own


def test_a_topic_of_another_type_refuses_every_one_of_many_messages_that_are_alike(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_topic_message_type_check=True)
    typed(broker, "delays", "DELAY")
    typed(broker, "normals", "NORMAL")
    producer = broker.connect()
    for number in range(3):
        properties = {"UNIQ_KEY": f"{number}", "WAIT": "true"}
        assert broker.send(producer, "delays", properties=properties).code == ResponseCode.MESSAGE_ILLEGAL
        assert broker.send(producer, "normals", properties=properties).code == ResponseCode.SUCCESS
        properties["__SHARDINGKEY"] = "k"
        assert broker.send(producer, "normals", properties=properties).code == ResponseCode.MESSAGE_ILLEGAL


def test_types_are_not_checked_unless_that_is_set(broker: WholeBroker) -> None:
    typed(broker, "later", "DELAY")
    assert broker.send(broker.connect(), "later").code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("properties", "queue_id", "left"),
    [
        ({"_SYS_MSG_PRIORITY_": "2"}, 2, True),
        ({"_SYS_MSG_PRIORITY_": "99"}, 3, True),
        ({"_SYS_MSG_PRIORITY_": "none"}, 1, True),
        ({"_SYS_MSG_PRIORITY_": "2", "__SHARDINGKEY": "a"}, 1, False),
    ],
)
def test_the_priority_of_a_message_chooses_its_queue(
    broker: WholeBroker, properties: dict[str, str], queue_id: int, left: bool
) -> None:
    answer = broker.send(broker.connect(), properties=properties, queue_id=1)
    assert answer.ext_fields["queueId"] == str(queue_id)
    (stored,) = broker.messages("orders", queue_id)
    assert ("_SYS_MSG_PRIORITY_" in stored.property_map) is left


@pytest.mark.parametrize("way", ["send", "batch", "reply"])
def test_properties_that_no_message_may_have_are_refused_before_they_are_parsed(
    broker: WholeBroker, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of 13 MB with a million properties took two seconds in one piece."""
    parsed: list[int] = []

    def counted(raw: bytes | str) -> dict[str, str]:
        parsed.append(len(raw))
        return parse_properties(raw)

    for module in (send, batches, stored_properties):
        monkeypatch.setattr(module, "parse_properties", counted)
    code = RequestCode.SEND_REPLY_MESSAGE if way == "reply" else RequestCode.SEND_MESSAGE
    text = "MSG_TYPE\x01reply\x02" + "a\x01b\x02" * (MAX_TEXT_CHARACTERS // 4)
    answer = broker.send(broker.connect(), properties=text, code=code, batch=way == "batch")
    assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, "the message properties are over 32767 bytes")
    assert max(parsed, default=0) <= MAX_TEXT_CHARACTERS
