"""Sending batches: stored as neighbours or not at all, and answered once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from gateway.broker.requests.sending.batches import MAX_IDS_IN_FORM
from gateway.tests.broker.send_requests import BATCH, batch, refused, short
from gateway.tests.broker.whole_broker import WholeBroker, pulling, sending
from wire.codes import RequestCode, ResponseCode, SerializeType
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import PullFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.properties import build_properties
from wire.message.record import parse_records


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def test_a_batch_is_stored_as_neighbours_and_answered_once(broker: WholeBroker) -> None:
    producer = broker.connect()
    broker.send(producer, queue_id=1)
    body = batch((b"a", {"UNIQ_KEY": "1", "TAGS": "x"}), (b"b", {"UNIQ_KEY": "2"}), (b"c", {}))
    header = short(sending(queue_id=1, batch=True, properties="WAIT\x01true"))
    answer = broker.ask(producer, BATCH, header, body)
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == ("1", "1")
    stored = broker.messages("orders", 1, 1)
    offsets = [parse_offset_message_id(text)[1] for text in answer.ext_fields["msgId"].split(",")]
    assert offsets == [message.commit_log_offset for message in stored]
    assert [message.body for message in stored] == [b"a", b"b", b"c"]
    assert [message.flag for message in stored] == [0, 1, 2]
    assert [message.unique_key for message in stored][:2] == ["1", "2"]
    assert [message.property_map for message in stored] == [{"UNIQ_KEY": "1", "TAGS": "x"}, {"UNIQ_KEY": "2"}, {}]
    assert all(
        message.commit_log_offset + message.total_size == following.commit_log_offset
        for message, following in pairwise(stored)
    )


def test_delay_and_transaction_inside_a_batch_are_not_evaluated(broker: WholeBroker) -> None:
    body = batch((b"a", {"DELAY": "1"}), (b"b", {"TRAN_MSG": "true"}))
    broker.ask(broker.connect(), BATCH, short(sending(batch=True, sys_flag=4)), body)
    assert len(broker.messages("orders")) == 2


def test_a_batch_in_a_transaction_is_refused_and_not_delivered_before_its_outcome(broker: WholeBroker) -> None:
    header = short(sending(batch=True, sys_flag=4, properties="TRAN_MSG\x01true\x02PGROUP\x01producers"))
    code, remark = refused(broker.ask(broker.connect(), BATCH, header, batch((b"a", {}), (b"b", {}))))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert "cannot be a transaction" in remark
    assert broker.messages("orders") == []


ACTED_UPON = {
    "TRAN_MSG": "true",
    "DELAY": "1",
    "TIMER_DELAY_MS": "5000",
    "TIMER_DELAY_SEC": "5",
    "TIMER_DELIVER_MS": "1750000009000",
    "__LITE_TOPIC": "chat",
    "_SYS_MSG_PRIORITY_": "1",
    "INNER_MULTI_DISPATCH": "%LMQ%a",
}


@pytest.mark.parametrize("name", [*ACTED_UPON])
def test_a_batch_whose_header_asks_for_what_only_a_single_message_can_have_is_refused(
    broker: WholeBroker, name: str
) -> None:
    header = short(sending(batch=True, properties={"WAIT": "true", "UNIQ_KEY": "K", name: ACTED_UPON[name]}))
    code, remark = refused(broker.ask(broker.connect(), BATCH, header, batch((b"a", {}), (b"b", {}))))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert name in remark or "transaction" in remark
    broker.wait(10)
    assert broker.messages("orders") == []


def test_tags_and_keys_in_the_header_are_those_of_the_messages_as_clients_with_auto_batch_send_them(
    broker: WholeBroker,
) -> None:
    own = {"TAGS": "blue", "KEYS": "k1"}
    header = short(sending(batch=True, properties={"WAIT": "true", "TAGS": "blue", "KEYS": "k1 k2"}))
    answer = broker.ask(broker.connect(), BATCH, header, batch((b"a", own), (b"b", {**own, "KEYS": "k2"})))
    assert answer.code == ResponseCode.SUCCESS
    assert [message.property_map["KEYS"] for message in broker.messages("orders")] == ["k1", "k2"]


def test_a_delay_that_cannot_be_read_is_refused_in_the_header_of_a_batch_too(broker: WholeBroker) -> None:
    header = short(sending(batch=True, properties={"DELAY": "soon"}))
    answer = broker.ask(broker.connect(), BATCH, header, batch((b"a", {})))
    assert (answer.code, answer.remark) == (
        ResponseCode.MESSAGE_ILLEGAL,
        "a batch cannot wait, property DELAY=soon: send its messages one by one",
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"WAIT": "true", "UNIQ_KEY": "K", "__SHARDINGKEY": "s", "mine": "1"},
        {"DELAY": "0", "TRAN_MSG": "false"},
        {"DELAY": "-1"},
        {"TIMER_DELIVER_MS": "1750000009000", "TIMER_OUT_MS": "1750000008000"},
    ],
    ids=["usual", "none", "negative", "delivered before"],
)
def test_what_a_single_message_would_not_wait_for_is_no_reason_to_refuse_a_batch(
    broker: WholeBroker, properties: dict[str, str]
) -> None:
    header = short(sending(batch=True, properties=properties))
    assert broker.ask(broker.connect(), BATCH, header, batch((b"a", {}), (b"b", {}))).code == ResponseCode.SUCCESS
    assert len(broker.messages("orders")) == 2


@pytest.mark.parametrize(
    ("topic", "body", "code"),
    [
        ("%RETRY%group", batch((b"a", {})), ResponseCode.MESSAGE_ILLEGAL),
        ("%RETRY%" + "g" * 121, batch((b"a", {})), ResponseCode.MESSAGE_ILLEGAL),
        ("orders", b"", ResponseCode.MESSAGE_ILLEGAL),
        ("orders", batch((b"x" * 5_000, {})), ResponseCode.MESSAGE_ILLEGAL),
        ("orders", b"\0" * 30, ResponseCode.SYSTEM_ERROR),
        ("orders", batch((b"a", {}))[:-1], ResponseCode.SYSTEM_ERROR),
    ],
)
def test_batches_that_are_refused_store_nothing(tmp_path: Path, topic: str, body: bytes, code: ResponseCode) -> None:
    broker = WholeBroker(tmp_path / "store", max_message_size=4_096)
    answer = broker.ask(broker.connect(), BATCH, short(sending(topic, batch=True)), body)
    assert answer.code == code
    assert answer.remark
    assert broker.messages(topic) == []


@pytest.mark.parametrize("form", [SerializeType.JSON, SerializeType.ROCKETMQ])
def test_a_batch_is_answered_with_the_same_fields_in_both_forms(broker: WholeBroker, form: int) -> None:
    producer = broker.connect()
    body = batch(*[(b"%d" % number, {"UNIQ_KEY": f"K{number}"}) for number in range(3)])
    header = build_header(short(sending(queue_id=2, batch=True)))
    producer.send(RemotingCommand(BATCH, opaque=7, ext_fields=header, body=body, serialize_type=form))
    broker.turn()
    (answer,) = producer.received()
    places = [message.offset_message_id for message in broker.messages("orders", 2)]
    assert (answer.code, answer.opaque, answer.remark, answer.serialize_type) == (ResponseCode.SUCCESS, 7, None, form)
    assert answer.ext_fields == {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": ",".join(places),
        "queueId": "2",
        "queueOffset": "0",
    }


@pytest.mark.parametrize("count", [MAX_IDS_IN_FORM, MAX_IDS_IN_FORM + 1])
def test_a_batch_of_many_messages_is_answered_with_every_id(broker: WholeBroker, count: int) -> None:
    answer = broker.ask(broker.connect(), BATCH, short(sending(batch=True)), batch(*[(b"", {})] * count))
    first = broker.messages("orders")[0]
    ids = answer.ext_fields["msgId"].split(",")
    places = [parse_offset_message_id(text)[1] for text in ids]
    assert ids[0] == first.offset_message_id
    assert places == [first.commit_log_offset + number * first.total_size for number in range(count)]


def test_a_one_way_batch_is_stored_and_not_answered(broker: WholeBroker) -> None:
    producer = broker.connect()
    body = batch((b"a", {}), (b"b", {}))
    assert broker.ask_all(producer, BATCH, short(sending(batch=True)), body, oneway=True) == []
    assert [message.body for message in broker.messages("orders")] == [b"a", b"b"]


def test_a_batch_wakes_a_held_pull_and_counts_every_message(broker: WholeBroker) -> None:
    producer, consumer = broker.connect(), broker.connect()
    broker.send(producer)
    broker.subscribe(consumer)
    assert (
        broker.ask_all(
            consumer, RequestCode.PULL_MESSAGE, pulling(1, sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)
        )
        == []
    )
    broker.ask(producer, BATCH, short(sending(batch=True)), batch((b"a", {}), (b"b", {}), (b"c", {})))
    (answer,) = consumer.received()
    assert [message.body for message in parse_records(answer.body)] == [b"a", b"b", b"c"]
    flow = broker.parts.flows.into("orders")
    assert flow is not None
    assert (flow.messages, broker.parts.traffic.stored_messages) == (4, 4)


def test_a_batch_is_stored_whole_or_not_at_all(broker: WholeBroker) -> None:
    producer = broker.connect()
    too_large = bytes(4 << 20)
    answer = broker.ask(producer, BATCH, short(sending(batch=True)), batch((b"a", {}), (too_large, {})))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert broker.messages("orders") == []
    assert broker.send(producer).ext_fields["queueOffset"] == "0"


def test_every_message_of_a_batch_must_be_of_the_type_of_the_topic(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_topic_message_type_check=True)
    fifo = build_properties({"__SHARDINGKEY": "a"})
    body = build_batch([BatchPart(0, b"a", b""), BatchPart(0, b"b", fifo)])
    answer = broker.ask(broker.connect(), BATCH, short(sending(batch=True)), body)
    assert refused(answer)[0] == ResponseCode.MESSAGE_ILLEGAL
    assert broker.messages("orders") == []
