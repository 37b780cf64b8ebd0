"""Sending: what is refused in which order, what is stored, and what the producer reads in the answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gateway.store.errors import WriteFailed
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling, sending
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode, SerializeType
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.headers.send import ShortSendMessageRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import PullFlag, SysFlag
from wire.message.message_id import parse_offset_message_id, unpack_host
from wire.message.properties import build_properties
from wire.message.recall_handle import parse_recall_handle
from wire.message.record import parse_records

BATCH = RequestCode.SEND_BATCH_MESSAGE


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def refused(answer: RemotingCommand) -> tuple[int, str]:
    """Code and remark of an answer of the send path, which always tells region and tracing."""
    assert answer.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    return answer.code, answer.remark or ""


def short(header: Any) -> Any:
    """The same header with one-letter names."""
    names = type(header).__annotations__
    return ShortSendMessageRequest(**{name: getattr(header, name) for name in names})


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


# -- delays and transactions ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("flag", ["true", "TRUE"])
def test_a_half_message_is_hidden_and_answered_with_its_place_in_the_half_queue(broker: WholeBroker, flag: str) -> None:
    producer = broker.connect()
    properties = {"TRAN_MSG": flag, "PGROUP": "producers", "UNIQ_KEY": "K1"}
    answer = broker.send(producer, queue_id=1, sys_flag=SysFlag.TRANSACTION_PREPARED, properties=properties)
    fields = answer.ext_fields
    assert (fields["queueId"], fields["queueOffset"], fields["transactionId"]) == ("1", "0", "K1")
    assert broker.messages("orders", 1) == []
    assert broker.messages("RMQ_SYS_TRANS_HALF_TOPIC")[0].property_map["REAL_TOPIC"] == "orders"


def test_half_messages_that_are_alike_are_stored_alike(broker: WholeBroker) -> None:
    producer = broker.connect()
    keys = [f"{number:032X}" for number in range(4)]
    for queue_id, key in enumerate(keys):
        properties = {"TRAN_MSG": "true", "UNIQ_KEY": key, "WAIT": "true", "PGROUP": "producers"}
        answer = broker.send(producer, queue_id=queue_id, properties=properties)
        fields = answer.ext_fields
        assert (fields["queueId"], fields["queueOffset"], fields["transactionId"]) == (str(queue_id),) * 2 + (key,)
    stored = broker.messages("RMQ_SYS_TRANS_HALF_TOPIC")
    texts = [message.properties.decode().replace(key, "?") for message, key in zip(stored, keys, strict=True)]
    assert texts == [
        "TRAN_MSG\x01true\x02UNIQ_KEY\x01?\x02WAIT\x01true\x02PGROUP\x01producers\x02"
        "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
        f"REAL_TOPIC\x01orders\x02REAL_QID\x01{queue_id}\x02__transactionId__\x01?\x02"
        for queue_id in range(4)
    ]


@pytest.mark.parametrize("odd", [{"DELAY": "1"}, {"PGROUP": ""}, {"PGROUP": "a\tb"}, {"TIMER_DELAY_SEC": "3"}])
def test_every_one_of_many_half_messages_that_cannot_be_taken_is_refused(
    broker: WholeBroker, odd: dict[str, str]
) -> None:
    producer = broker.connect()
    for number in range(4):
        properties = {"TRAN_MSG": "true", "UNIQ_KEY": f"{number}", "WAIT": "true", "PGROUP": "p", **odd}
        assert broker.send(producer, properties=properties).code == ResponseCode.MESSAGE_ILLEGAL
    assert broker.messages("RMQ_SYS_TRANS_HALF_TOPIC") == []


def test_half_messages_are_refused_from_when_transactions_are_switched_off(broker: WholeBroker) -> None:
    producer = broker.connect()
    codes = []
    for number in range(6):
        if number == 3:
            changed = broker.ask(producer, RequestCode.UPDATE_BROKER_CONFIG, body=b"rejectTransactionMessage=true")
            assert changed.code == ResponseCode.SUCCESS
        properties = {"TRAN_MSG": "true", "UNIQ_KEY": f"{number}", "WAIT": "true", "PGROUP": "p"}
        codes.append(broker.send(producer, properties=properties).code)
    assert codes == [ResponseCode.SUCCESS] * 3 + [ResponseCode.NO_PERMISSION] * 3


def test_a_half_message_and_an_outcome_of_one_turn_go_to_the_log_together(broker: WholeBroker) -> None:
    producer = broker.connect()

    def half(key: str) -> Any:
        return sending(properties={"TRAN_MSG": "true", "UNIQ_KEY": key, "WAIT": "true", "PGROUP": "producers"})

    fields = broker.ask(producer, RequestCode.SEND_MESSAGE, half("K1")).ext_fields
    outcome = EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=int(fields["queueOffset"]),
        commit_log_offset=int(fields["msgId"][-16:], 16),
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        msg_id="K1",
    )
    together: list[list[str]] = []
    broker.parts.store.listen(lambda outcomes: together.append([outcome.topic for outcome in outcomes]))
    producer.ask_all(RequestCode.SEND_MESSAGE, half("K2"))  # first, when nothing waits yet
    producer.ask_all(RequestCode.END_TRANSACTION, outcome)
    broker.turn()
    assert together == [["RMQ_SYS_TRANS_HALF_TOPIC", "orders", "RMQ_SYS_TRANS_OP_HALF_TOPIC"]]


def test_a_half_message_with_a_delay_is_refused(broker: WholeBroker) -> None:
    code, remark = refused(broker.send(broker.connect(), properties={"TRAN_MSG": "true", "DELAY": "1"}))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert "DELAY" in remark


def test_transactions_can_be_switched_off(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", reject_transaction_message=True)
    assert refused(broker.send(broker.connect(), properties={"TRAN_MSG": "true"}))[0] == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("kind", [SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK])
def test_transaction_bits_alone_do_not_hide_a_message(broker: WholeBroker, kind: int) -> None:
    broker.send(broker.connect(), sys_flag=kind | SysFlag.COMPRESSED)
    assert [message.sys_flag for message in broker.messages("orders")] == [SysFlag.COMPRESSED]


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


# -- batches ----------------------------------------------------------------------------------------------------


def batch(*parts: tuple[bytes, dict[str, str]]) -> bytes:
    return build_batch([BatchPart(index, body, build_properties(map_)) for index, (body, map_) in enumerate(parts)])


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


# -- when a sender is answered ----------------------------------------------------------------------------------


class HeldBroker(WholeBroker):
    """A broker whose log thread works when told to."""

    def __init__(self, directory: Path, **changed: Any) -> None:
        super().__init__(directory, **changed)
        self.works: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.in_log_thread = lambda work, done: self.works.append((work, done))

    def work(self) -> None:
        work, done = self.works.popleft()
        done(work())
        self.turn()


@pytest.mark.parametrize("wait", ["false", "FALSE", "no"])
def test_a_sender_that_does_not_wait_is_answered_when_written_and_consumers_see_it_when_durable(
    tmp_path: Path, wait: str
) -> None:
    broker = HeldBroker(tmp_path)
    client = broker.connect()
    assert broker.ask_all(client, RequestCode.SEND_MESSAGE, sending(properties={"WAIT": wait}), b"x") == []
    broker.work()
    (answer,) = client.received()
    assert (answer.code, answer.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, "0")
    assert broker.messages("orders") == []
    broker.work()
    assert client.received() == []
    (found,) = broker.messages("orders")
    assert found.property_map["WAIT"] == wait


@pytest.mark.parametrize(
    "properties",
    [{"WAIT": "true"}, {"WAIT": "TRUE"}, {}, {"WAIT": "false", "TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "k"}],
)
def test_others_and_half_messages_are_answered_when_they_are_on_disk(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    broker = HeldBroker(tmp_path)
    client = broker.connect()
    broker.ask_all(client, RequestCode.SEND_MESSAGE, sending(properties=properties), b"x")
    broker.work()  # written, in a new file
    assert client.received() == []
    broker.work()
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]


def test_a_batch_that_does_not_wait_is_answered_when_written(tmp_path: Path) -> None:
    broker = HeldBroker(tmp_path)
    client = broker.connect()
    header = short(sending(batch=True, properties={"WAIT": "false"}))
    broker.ask_all(client, BATCH, header, batch((b"a", {}), (b"b", {})))
    broker.work()
    (answer,) = client.received()
    assert (answer.code, answer.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, "0")
    assert broker.messages("orders") == []
    broker.work()
    assert len(broker.messages("orders")) == 2


def test_a_disk_that_takes_too_long_is_answered_with_the_messages_place(tmp_path: Path) -> None:
    broker = HeldBroker(tmp_path, sync_flush_timeout_ms=2_000)
    client = broker.connect()
    broker.ask_all(client, RequestCode.SEND_MESSAGE, sending(), b"x")
    broker.work()  # written, in a new file
    broker.wait(1.75)
    assert client.received() == []
    broker.wait(0.25)
    (answer,) = client.received()
    assert (answer.code, answer.remark) == (ResponseCode.FLUSH_DISK_TIMEOUT, None)
    assert answer.ext_fields["queueOffset"] == "0"
    assert parse_offset_message_id(answer.ext_fields["msgId"])[1] == 0
    broker.work()
    assert client.received() == []
    assert [message.body for message in broker.messages("orders")] == [b"x"]


def test_a_store_that_failed_says_so_to_every_sender(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client)
    why = "sync of the commit log failed: [Errno 5] Input/output error"

    def fails(_: object) -> None:
        raise WriteFailed(why)

    broker.parts.store._group._sync = fails
    first, second = broker.send(client), broker.send(client)
    reason = f"the store failed: {why}; restart the broker to recover"
    assert (first.code, first.remark) == (ResponseCode.SYSTEM_ERROR, f"UNKNOWN_ERROR: {reason}")
    assert (second.code, second.remark) == (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"service not available now: {reason}",
    )


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


def test_every_message_of_a_batch_must_be_of_the_type_of_the_topic(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_topic_message_type_check=True)
    fifo = build_properties({"__SHARDINGKEY": "a"})
    body = build_batch([BatchPart(0, b"a", b""), BatchPart(0, b"b", fifo)])
    answer = broker.ask(broker.connect(), BATCH, short(sending(batch=True)), body)
    assert refused(answer)[0] == ResponseCode.MESSAGE_ILLEGAL
    assert broker.messages("orders") == []


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
