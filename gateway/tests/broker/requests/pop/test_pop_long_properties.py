"""Popped messages whose properties have hardly room for the receipt of their next delivery."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.broker.popping import ack, filled, pop
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import ResponseCode
from wire.message.batch import BatchPart, build_batch
from wire.message.properties import MAX_PROPERTIES_BYTES


def long_properties(store: Path, missing: int) -> str:
    """Return properties with which a stored message has so many bytes less than it may have."""
    broker = WholeBroker(store)
    filled(broker, "a", properties="k\x01v\x02")
    (message,) = broker.messages("orders")
    broker.stop()
    return f"k\x01{'v' * (MAX_PROPERTIES_BYTES - len(message.properties) + 1 - missing)}\x02"


@pytest.mark.parametrize("newer", [False, True], ids=["older retry topic", "newer retry topic"])
@pytest.mark.parametrize("missing", [0, 10, 40, 60, 100])
def test_a_message_without_room_for_its_receipt_comes_again_until_it_is_acknowledged(
    tmp_path: Path, missing: int, newer: bool
) -> None:
    properties = long_properties(tmp_path / "first", missing)
    broker = WholeBroker(tmp_path / "store", enable_retry_topic_v2=newer)
    client = filled(broker, "a", properties=properties)
    for times in range(3):
        (message,) = pop(broker, client, invisible_time=1_000)
        assert (message.record.body, message.record.reconsume_times) == (b"a", times)
        assert message.record.property_map["k"] == properties[2:-1]
        broker.wait(3)
    (message,) = pop(broker, client, invisible_time=1_000)
    assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.wait(30)
    assert pop(broker, client) == []
    assert broker.messages("%DLQ%group") == []
    broker.stop()


def test_it_is_given_under_its_retry_topic_with_all_that_come_from_there(tmp_path: Path) -> None:
    properties = long_properties(tmp_path / "first", 20)
    broker = WholeBroker(tmp_path / "store", enable_retry_topic_v2=True)
    client = filled(broker, "a")
    broker.send(client, body=b"b", properties=properties)
    pop(broker, client, invisible_time=1_000)
    broker.wait(3)
    broker.send(client, body=b"c")
    popped = pop(broker, client)
    topics = {message.record.body: message.record.topic for message in popped}
    assert topics == {b"a": "%RETRY%group+orders", b"b": "%RETRY%group+orders", b"c": "orders"}
    assert [ack(broker, client, message) for message in popped] == [ResponseCode.SUCCESS] * 3
    broker.stop()


def test_properties_that_are_not_utf_8_come_again_as_they_are(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker)
    raw = b"k\x01" + b"\xff" * 20_000 + b"\x02ORIGIN_GROUP\x01another\x02"
    broker.send(client, body=build_batch([BatchPart(0, b"a", raw)]), batch=True)
    assert broker.messages("orders")[0].properties.startswith(raw)
    for times in range(2):
        (message,) = pop(broker, client, invisible_time=1_000)
        assert (message.record.body, message.record.reconsume_times) == (b"a", times)
        broker.wait(3)
    assert broker.messages("%RETRY%group+orders")[0].properties.startswith(raw)
    broker.stop()


@pytest.mark.parametrize("room", [0, 30])
def test_a_dead_letter_without_room_for_longer_offsets_in_light_queues_is_kept_all_the_same(
    tmp_path: Path, room: int
) -> None:
    broker = WholeBroker(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True)
    named = {"INNER_MULTI_DISPATCH": "%LMQ%x", "UNIQ_KEY": "u"}
    client = broker.connect()
    broker.send(client, body=b"probe", properties={**named, "k": "v"})
    used = len(broker.messages("orders")[0].properties)
    pop(broker, client)
    broker.send(client, body=b"a", reconsume_times=99, properties={**named, "k": "v" * (32_768 - room - used)})
    for number in range(9):
        broker.send(client, topic="others", body=b"%d" % number, properties=named)
    assert len(pop(broker, client, invisible_time=1_000)) == 1
    broker.wait(3)
    assert [letter.body for letter in broker.messages("%DLQ%group")] == [b"a"]
    assert len(broker.messages("%LMQ%x")) == 11
    broker.stop()
