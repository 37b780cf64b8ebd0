import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.client.compression import compress
from gateway.client.errors import MessageRefused, MessageTooLarge
from gateway.client.message import Message, MessageQueue, ReceivedMessage, check_size, message_properties
from wire.message.flags import SysFlag
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record, parse_record


@pytest.mark.parametrize("topic", ["t", "T-1_x", "%RETRY%g", "a|b", "x" * 127])
def test_topics_that_java_takes_are_taken(topic: str) -> None:
    assert Message(topic, b"x").topic == topic


@pytest.mark.parametrize("topic", ["", "x" * 128, "a b", "a/b", "Zürich", "a\n", "a.b"])
def test_topics_that_java_refuses_are_refused(topic: str) -> None:
    with pytest.raises(MessageRefused, match="topic"):
        Message(topic, b"x")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"body": "text"}, "encode it"),
        ({"body": b""}, "empty"),
        ({"body": None}, "NoneType"),
        ({"body": bytearray(b"x")}, "bytearray"),
        ({"topic": 5}, "int"),
        ({"tags": "a\x01b"}, "tags"),
        ({"tags": 5}, "tags"),
        ({"keys": "two words"}, "key"),
        ({"keys": ["ok", ""]}, "key"),
        ({"keys": ["a\x02"]}, "key"),
        ({"properties": {"UNIQ_KEY": "x"}}, "reserved"),
        ({"properties": {"KEYS": "x"}}, "reserved"),
        ({"properties": {"a": ""}}, "empty"),
        ({"properties": {"": "a"}}, "empty"),
        ({"properties": {"a": "b\x02"}}, "0x02"),
        ({"properties": {"a": 5}}, "int"),
        ({"properties": {"a": "\ud800"}}, "surrogate"),
        ({"sharding_key": "\x01"}, "sharding_key"),
        ({"delay_level": -1}, "delay_level"),
        ({"delay_level": 65}, "delay_level"),
        ({"delay_level": 1.5}, "delay_level"),
        ({"delay_level": 1, "delay": 5}, "twice"),
        ({"delay": -1}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"deliver_at": datetime(2026, 1, 1)}, "time zone"),
        ({"deliver_at": -5.0}, "1970"),
        ({"flag": 2**31}, "flag"),
        ({"keys": 5}, "keys is int, not text or a sequence"),
        ({"properties": ["a"]}, "properties is list, not a mapping"),
        ({"delay": "5"}, "delay is str, not a timedelta"),
        ({"deliver_at": "tomorrow"}, "deliver_at is str, not an aware datetime"),
    ],
)
def test_what_cannot_be_sent_cannot_be_made(changes: dict[str, Any], part: str) -> None:
    with pytest.raises(MessageRefused, match=part):
        Message(**{"topic": "t", "body": b"x", **changes})


def test_a_message_cannot_be_changed_nor_can_what_it_was_made_of() -> None:
    properties = {"a": "b"}
    keys = ["k"]
    message = Message("t", b"x", properties=properties, keys=keys)
    properties["a"] = "c"
    keys.append("l")
    assert message.properties == {"a": "b"}
    assert message.keys == ("k",)
    with pytest.raises(AttributeError):
        message.topic = "u"  # type: ignore[misc]


def test_one_key_may_be_given_as_text() -> None:
    assert Message("t", b"x", keys="order-1").keys == ("order-1",)


def test_properties_are_written_as_java_writes_them() -> None:
    message = Message("t", b"x", tags="T", keys=["a", "b"], properties={"p": "q"}, sharding_key="s")
    assert message_properties(message) == {
        "p": "q",
        "KEYS": "a b",
        "TAGS": "T",
        "__SHARDINGKEY": "s",
        "WAIT": "true",
    }


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"delay_level": 3}, "DELAY", "3"),
        ({"delay": 1.5}, "TIMER_DELAY_MS", "1500"),
        ({"delay": timedelta(minutes=1)}, "TIMER_DELAY_MS", "60000"),
        ({"deliver_at": 1_700_000_000.25}, "TIMER_DELIVER_MS", "1700000000250"),
        ({"deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}, "TIMER_DELIVER_MS", "1893456000000"),
        ({"wait_store_msg_ok": False}, "WAIT", "false"),
    ],
)
def test_delays_become_properties(changes: dict[str, Any], name: str, value: str) -> None:
    message = Message("t", b"x", **changes)
    assert message_properties(message)[name] == value
    assert message.is_delayed is (name != "WAIT")


def test_a_body_over_the_limit_is_refused_with_both_numbers() -> None:
    check_size(Message("t", b"12345"), 5)
    with pytest.raises(MessageTooLarge) as caught:
        check_size(Message("t", b"123456"), 5)
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (6, 5)


def received(**properties: str) -> ReceivedMessage:
    return received_with(properties)


def received_with(
    properties: Mapping[str, str], *, sys_flag: int = 0, body: bytes = b"hello", topic: str = "t"
) -> ReceivedMessage:
    outgoing = OutgoingMessage(
        topic,
        2,
        -7,
        sys_flag,
        1_700_000_000_000,
        pack_host("10.0.0.1", 5000),
        pack_host("2001:db8::1", 10911),
        1,
        0,
        body,
        build_properties(properties),
    )
    return ReceivedMessage(parse_record(build_record(outgoing, 9, 4096, 1_700_000_000_500)), "broker-a")


def test_a_received_message_shows_its_parts() -> None:
    message = received(TAGS="T", KEYS="a b", UNIQ_KEY="ID", color="red", __SHARDINGKEY="s")
    assert (message.topic, message.body, message.tags, message.keys) == ("t", b"hello", "T", ("a", "b"))
    assert message.queue == MessageQueue("t", "broker-a", 2)
    assert (message.queue_offset, message.commit_log_offset, message.reconsume_times) == (9, 4096, 1)
    assert (message.born_host, message.store_host) == ("10.0.0.1:5000", "[2001:db8::1]:10911")
    assert (message.born_at_ms, message.stored_at_ms) == (1_700_000_000_000, 1_700_000_000_500)
    assert (message.msg_id, message.sharding_key, message.flag) == ("ID", "s", -7)
    assert message.properties["color"] == "red"
    assert message.transaction_id is None
    assert "ID" in repr(message)


def test_without_an_id_of_its_producer_the_offset_id_stands_in() -> None:
    message = received()
    assert message.msg_id == message.offset_msg_id
    assert len(message.offset_msg_id) == 56


def test_a_redelivered_message_shows_the_topic_it_was_sent_to() -> None:
    message = received_with({"RETRY_TOPIC": "orders"}, topic="%RETRY%g")
    assert message.topic == "orders"
    assert message.queue.topic == "%RETRY%g"


def test_a_compressed_body_is_decompressed_when_it_is_read() -> None:
    body = b"0123456789" * 100
    flags = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    message = received_with({}, sys_flag=flags, body=compress(body, "zlib", 5))
    assert message.body == body
    assert message.body is message.body, "once only"


def test_the_transaction_id_is_shown() -> None:
    assert received(__transactionId__="TX", UNIQ_KEY="ID").transaction_id == "TX"
    assert received_with({"UNIQ_KEY": "ID"}, sys_flag=SysFlag.TRANSACTION_COMMIT).transaction_id == "ID"


def test_the_namespace_is_taken_off() -> None:
    record = received_with({}, topic="ns%orders").record
    assert ReceivedMessage(record, "b", namespace="ns").topic == "orders"


def test_messages_can_be_handed_to_other_processes() -> None:
    message = Message("t", b"x", tags="T", keys=["k"], properties={"a": "b"}, delay=timedelta(seconds=5))
    assert pickle.loads(pickle.dumps(message)) == message
