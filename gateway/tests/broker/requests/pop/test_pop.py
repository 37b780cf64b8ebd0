"""Popping: where messages come from, how they are hidden, who waits, and what comes again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.pop import pop_taking
from gateway.in_thread import in_this_thread
from gateway.remoting.turns import finish
from gateway.store.message_store import MessageStore
from gateway.tests.broker.popping import CHANGE, POP, RETRY_TOPIC, ack, bodies, filled, infos, messages, pop, popping
from gateway.tests.broker.whole_broker import WholeBroker, sending
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.headers.topics import DeleteTopicRequest
from wire.message.properties import MAX_PROPERTIES_BYTES
from wire.message.record import MOST_TIMES


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", pop_from_retry_probability=0)


# -- what is found ----------------------------------------------------------------------------------------------


def test_a_pop_brings_messages_of_all_queues_with_what_their_receipts_are_made_of(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    broker.send(client, body=b"c", queue_id=2)
    answer = broker.ask(client, POP, popping())
    assert answer.code == ResponseCode.SUCCESS
    assert bodies(messages(answer)) == [b"a", b"b", b"c"]
    fields = answer.ext_fields
    assert infos(fields["startOffsetInfo"]) == {("0", "0"): "0", ("0", "2"): "0"}
    assert infos(fields["msgOffsetInfo"]) == {("0", "0"): "0,1", ("0", "2"): "0"}
    assert (fields["popTime"], fields["invisibleTime"]) == (str(broker.clock()), "10000")
    assert 0 <= int(fields["reviveQid"]) < 8
    assert fields["restNum"] == "0"
    assert "orderCountInfo" not in fields


def test_what_is_popped_is_hidden_from_the_group_and_not_from_others(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    assert bodies(pop(broker, client)) == [b"a", b"b"]
    assert pop(broker, client) == []
    assert bodies(pop(broker, client, consumer_group="others")) == [b"a", b"b"]


def test_what_does_not_fit_is_told_as_rest(broker: WholeBroker) -> None:
    client = filled(broker, *"abcde")
    answer = broker.ask(client, POP, popping(max_msg_nums=2))
    assert bodies(messages(answer)) == [b"a", b"b"]
    assert answer.ext_fields["restNum"] == "3"
    assert bodies(pop(broker, client)) == [b"c", b"d", b"e"]


def test_one_queue_can_be_popped_alone(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.send(client, body=b"b", queue_id=1)
    assert bodies(pop(broker, client, queue_id=1)) == [b"b"]
    assert pop(broker, client, queue_id=1) == []


@pytest.mark.parametrize(("init_mode", "found"), [(0, [b"a", b"b"]), (1, [b"a", b"b"])])
def test_a_new_group_begins_at_the_first_message_while_it_is_in_memory(
    broker: WholeBroker, init_mode: int, found: list[bytes]
) -> None:
    client = filled(broker, "a", "b")
    assert bodies(pop(broker, client, init_mode=init_mode)) == found


def test_a_new_group_begins_at_the_last_message_when_the_first_is_not_in_memory(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a", "b", "c")
    monkeypatch.setattr(MessageStore, "is_cold", lambda *_: True)
    assert bodies(pop(broker, client, init_mode=1)) == [b"c"]
    assert broker.parts.offsets.query("group", "orders", 0) == 3


@pytest.mark.parametrize(
    ("exp_type", "exp", "found"),
    [
        ("TAG", "red || blue", [b"a", b"c"]),
        ("TAG", "green", [b"b"]),
        (None, "green", [b"b"]),
        ("SQL92", "TAGS IN ('red', 'green')", [b"a", b"b"]),
        (None, None, [b"a", b"b", b"c"]),
    ],
)
def test_only_what_the_filter_lets_through_is_popped(
    broker: WholeBroker, exp_type: str | None, exp: str | None, found: list[bytes]
) -> None:
    client = broker.connect()
    for body, tag in ((b"a", "red"), (b"b", "green"), (b"c", "blue")):
        broker.send(client, body=body, properties={"TAGS": tag})
    popped = pop(broker, client, exp_type=exp_type, exp=exp)
    assert bodies(popped) == found
    for message in popped:
        assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.wait(30)
    assert pop(broker, client) == []


def test_a_queue_without_a_match_is_looked_through_to_its_end(broker: WholeBroker) -> None:
    client = broker.connect()
    for number in range(2_000):
        broker.send(client, body=b"%d" % number, properties={"TAGS": "red" if number == 1_900 else "blue"})
    got = broker.ask_all(client, POP, popping(exp="red", poll_time=5_000))
    for _ in range(8):
        broker.turn()
    got += client.received()
    assert bodies(messages(got[0])) == [b"1900"]


# -- the checks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "settings", "code"),
    [
        ({"max_msg_nums": 33}, {}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_nums": 0}, {}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": -1}, {}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": 1 << 40}, {}, ResponseCode.INVALID_PARAMETER),
        ({}, {"broker_permission": 2}, ResponseCode.NO_PERMISSION),
        ({"topic": "missing"}, {}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "../x"}, {}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 4}, {}, ResponseCode.INVALID_PARAMETER),
        ({"consumer_group": "../x"}, {}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"consumer_group": "g" * 250}, {}, ResponseCode.INVALID_PARAMETER),
        ({}, {"auto_create_subscription_group": False}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"exp": "||"}, {}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"exp_type": "SQL92", "exp": "a >"}, {}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"exp_type": "SQL92", "exp": "a > 1"}, {"enable_property_filter": False}, ResponseCode.SYSTEM_ERROR),
        ({"born_time": 1_000, "poll_time": 10}, {}, ResponseCode.POLLING_TIMEOUT),
    ],
)
def test_a_pop_that_may_not_be_is_refused(
    tmp_path: Path, changed: dict[str, Any], settings: dict[str, Any], code: ResponseCode
) -> None:
    broker = WholeBroker(tmp_path / "store", **settings)
    client = filled(broker, "a")
    answer = broker.ask(client, POP, popping(**changed))
    assert answer.code == code
    assert answer.remark


def test_a_group_or_a_topic_that_is_closed_gives_nothing(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.parts.groups.put(SubscriptionGroupConfig("closed", consume_enable=False))
    broker.parts.groups.put(SubscriptionGroupConfig("shut"))
    broker.parts.groups.set_readable("shut", "orders", readable=False)
    for group in ("closed", "shut"):
        assert broker.ask(client, POP, popping(consumer_group=group)).code == ResponseCode.NO_PERMISSION
    broker.parts.topics.put(TopicConfig("orders", 4, 4, 2))
    assert broker.ask(client, POP, popping()).code == ResponseCode.NO_PERMISSION


def test_too_many_open_pops_are_told_to_come_later(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", pop_check_points_limit=1)
    client = filled(broker, "a", "b")
    (first,) = pop(broker, client, max_msg_nums=1)
    assert broker.ask(client, POP, popping()).code == ResponseCode.POLLING_FULL
    ack(broker, client, first)
    assert bodies(pop(broker, client)) == [b"b"]


def test_a_greedy_group_is_told_to_come_later_while_another_one_gets_messages(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", pop_check_points_limit=8)
    client = filled(broker, *"abcdefgh")
    broker.parts.groups.find("honest")
    for _ in range(6):
        assert pop(broker, client, max_msg_nums=1, invisible_time=259_200_000)
    answer = broker.ask(client, POP, popping(max_msg_nums=1))
    assert answer.code == ResponseCode.POLLING_FULL
    assert "open pops of group group: 6, of all: 6, the limit is 8" in str(answer.remark)
    assert pop(broker, client, max_msg_nums=1, consumer_group="honest")


def test_hiding_messages_one_by_one_makes_no_more_open_pops_than_may_be(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", pop_check_points_limit=4)
    client = filled(broker, *"abcdefgh")
    popped = pop(broker, client, invisible_time=60_000)
    assert len(popped) == 8
    codes = [broker.ask(client, CHANGE, message.changing(60_000)).code for message in popped]
    assert codes == [ResponseCode.SUCCESS] * 2 + [ResponseCode.SYSTEM_BUSY] * 6
    assert len(broker.parts.pops.check_points) == 3


def test_where_too_much_waits_for_the_disk_nothing_more_is_popped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop_taking, "MAX_WAITING_BYTES", 100)
    broker = WholeBroker(tmp_path / "store", pop_from_retry_probability=0)
    client = filled(broker, "a", "b")
    syncs: list[Callable[[], None]] = []
    broker.in_log_thread = lambda work, done: syncs.append(lambda: done(work()))
    assert broker.ask_all(client, POP, popping(max_msg_nums=1)) == []
    assert broker.ask(client, POP, popping()).code == ResponseCode.POLLING_FULL
    broker.in_log_thread = in_this_thread
    syncs.pop()()
    broker.turn()
    (first,) = client.received()
    assert bodies(messages(first)) == [b"a"]
    assert bodies(pop(broker, client)) == [b"b"]


def test_a_woken_pop_of_a_peer_that_does_not_read_takes_nothing_before_it_has_read(broker: WholeBroker) -> None:
    client, slow, other = filled(broker, "a"), broker.connect(), broker.connect()
    pop(broker, client)
    assert broker.ask_all(slow, POP, popping(poll_time=15_000)) == []
    slow.transport.full()
    slow.channel.send(RemotingCommand(0, body=bytes(2 << 20)))
    broker.turn()
    broker.send(client, body=b"b")
    assert bodies(pop(broker, other)) == [b"b"], "it is still there for others"
    broker.send(client, body=b"c")
    slow.transport.empty()
    broker.turn()
    assert bodies(messages(slow.received()[-1])) == [b"c"]


def test_the_id_of_an_attempt_is_no_place_to_keep_things(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    assert broker.ask(client, POP, popping(attempt_id="x" * 256)).code == ResponseCode.INVALID_PARAMETER
    assert pop(broker, client, attempt_id="x" * 255)


# -- what is held -----------------------------------------------------------------------------------------------


def test_a_pop_waits_for_a_message(broker: WholeBroker) -> None:
    client, waiting = filled(broker, "a"), broker.connect()
    pop(broker, client)
    assert broker.ask_all(waiting, POP, popping(poll_time=15_000)) == []
    broker.wait(3)
    assert waiting.received() == []
    broker.send(client, body=b"b")
    (answer,) = waiting.received()
    assert bodies(messages(answer)) == [b"b"]


def test_a_pop_waits_no_longer_than_it_asked_for(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    assert broker.ask_all(client, POP, popping(poll_time=2_000)) == []
    broker.wait(1.75)
    assert client.received() == []
    broker.wait(0.5)
    (answer,) = client.received()
    assert (answer.code, answer.ext_fields["restNum"]) == (ResponseCode.POLLING_TIMEOUT, "0")


def test_what_one_client_leaves_is_for_the_next_who_waits(broker: WholeBroker) -> None:
    sender = filled(broker, "x")
    pop(broker, sender)
    clients = [broker.connect() for _ in range(3)]
    for client in clients:
        assert broker.ask_all(client, POP, popping(poll_time=15_000, max_msg_nums=1)) == []
    sender.send(*(_sending(body) for body in (b"a", b"b")))
    for _ in range(4):
        broker.turn()
    answers = [client.received() for client in clients]
    assert [bodies(messages(answer[0])) for answer in answers if answer] == [[b"a"], [b"b"]]
    assert answers[2] == []


def _sending(body: bytes) -> RemotingCommand:
    return RemotingCommand(RequestCode.SEND_MESSAGE, ext_fields=build_header(sending()), body=body)


def test_messages_that_come_again_wake_who_waits(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client, invisible_time=2_000)
    assert broker.ask_all(client, POP, popping(poll_time=15_000)) == []
    broker.wait(3)
    (answer,) = client.received()
    assert [message.words[4] for message in messages(answer)] == ["1"]


def test_a_broker_that_stops_ends_who_waits(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    assert broker.ask_all(client, POP, popping(poll_time=15_000)) == []
    broker.stop()
    assert [answer.code for answer in client.received()] == [ResponseCode.POLLING_TIMEOUT]


# -- what comes again -------------------------------------------------------------------------------------------


def test_acknowledged_messages_never_come_again(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    for message in pop(broker, client):
        assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.wait(60)
    assert pop(broker, client) == []
    assert len(broker.parts.pops.check_points) == 0


def test_what_is_not_acknowledged_comes_again_from_the_retry_topic(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    first = pop(broker, client)
    assert ack(broker, client, first[1]) == ResponseCode.SUCCESS
    broker.wait(9)
    assert pop(broker, client) == []
    broker.wait(2)
    again = pop(broker, client)
    assert bodies(again) == [b"a", b"c"]
    assert [message.record.topic for message in again] == ["orders", "orders"]
    assert [message.record.reconsume_times for message in again] == [1, 1]
    assert {message.words[4] for message in again} == {"1"}
    assert [message.record.property_map["1ST_POP_TIME"] for message in again] == [first[0].words[1]] * 2
    for message in again:
        assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.wait(60)
    assert pop(broker, client) == []


def test_messages_come_again_until_the_group_gives_them_up(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.parts.groups.put(SubscriptionGroupConfig("group", retry_max_times=2))
    counts = []
    while popped := pop(broker, client, invisible_time=1_000):
        counts.append(popped[0].record.reconsume_times)
        broker.wait(2)
    assert counts == [0, 1, 2]
    (dead,) = broker.messages("%DLQ%group")
    assert (dead.body, dead.reconsume_times) == (b"a", 3)
    assert dead.property_map["DLQ_ORIGIN_TOPIC"] == "orders"


def test_a_dead_letter_topic_that_nobody_could_read_is_no_error_of_the_broker_and_the_message_waits_for_it(
    broker: WholeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = filled(broker, "a")
    broker.parts.groups.put(SubscriptionGroupConfig("group", retry_max_times=0))
    broker.parts.topics.put(TopicConfig("%DLQ%group", 0, 1))
    pop(broker, client, invisible_time=1_000)
    broker.wait(3)
    told = [record.levelname for record in caplog.records if "not given out again" in record.getMessage()]
    assert set(told) == {"WARNING"}
    broker.parts.topics.put(TopicConfig("%DLQ%group", 1, 1))
    broker.wait(2)
    assert [dead.body for dead in broker.messages("%DLQ%group")] == [b"a"]


@pytest.mark.parametrize("dead_letters", [True, False])
def test_a_message_whose_count_cannot_rise_is_settled_all_the_same(tmp_path: Path, dead_letters: bool) -> None:
    broker = WholeBroker(tmp_path / "store", pop_dead_letters=dead_letters)
    client = filled(broker, "a")
    broker.send(client, body=b"often", reconsume_times=MOST_TIMES)
    assert len(pop(broker, client, invisible_time=1_000)) == 2
    broker.wait(2)
    again = pop(broker, client)
    expected = [b"a"] if dead_letters else [b"a", b"often"]
    assert bodies(again) == expected
    (often,) = broker.messages("%DLQ%group") if dead_letters else [again[1].record]
    assert (often.body, often.reconsume_times) == (b"often", MOST_TIMES)


@pytest.mark.parametrize("bytes_left", [8, 40, 80])
def test_a_dead_letter_without_room_for_its_origin_is_kept_all_the_same(broker: WholeBroker, bytes_left: int) -> None:
    client = filled(broker, "a")
    broker.send(client, topic="probe", properties={"UNIQ_KEY": "u", "KEYS": ""})
    room = MAX_PROPERTIES_BYTES - bytes_left - len(broker.messages("probe")[0].properties)
    broker.send(client, body=b"full", reconsume_times=99, properties={"UNIQ_KEY": "u", "KEYS": "k" * room})
    assert len(pop(broker, client, invisible_time=1_000)) == 2
    broker.wait(2)
    assert bodies(pop(broker, client)) == [b"a"]
    (dead,) = broker.messages("%DLQ%group")
    assert (dead.body, dead.property_map["KEYS"]) == (b"full", "k" * room)


def test_without_dead_letters_messages_come_again_for_ever(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", pop_dead_letters=False)
    client = filled(broker, "a")
    broker.parts.groups.put(SubscriptionGroupConfig("group", retry_max_times=0))
    for count in range(4):
        (message,) = pop(broker, client, invisible_time=1_000)
        assert message.record.reconsume_times == count
        broker.wait(2)


def test_retry_topics_can_have_the_second_form_and_the_first_is_still_read(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_retry_topic_v2=True, pop_from_retry_probability=0)
    client = filled(broker, "a")
    broker.parts.topics.ensure(RETRY_TOPIC, 1, 6)
    broker.send(client, RETRY_TOPIC, b"older", properties={"ORIGIN_GROUP": "group"})
    pop(broker, client, invisible_time=1_000, max_msg_nums=1)
    broker.wait(2)
    kinds: dict[bytes, str] = {}
    for _ in range(2):
        kinds.update((message.record.body, message.words[4]) for message in pop(broker, client))
    assert kinds == {b"a": "2", b"older": "1"}


def test_retried_messages_can_be_given_out_under_their_own_topic(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", pop_response_return_actual_retry_topic=True)
    client = filled(broker, "a")
    pop(broker, client, invisible_time=1_000)
    broker.wait(2)
    answer = broker.ask(client, POP, popping())
    (message,) = messages(answer)
    assert message.record.topic == RETRY_TOPIC
    assert "POP_CK" not in message.record.property_map
    assert infos(answer.ext_fields["startOffsetInfo"]) == {("1", "0"): "0"}


def test_now_and_then_the_retry_topic_comes_first(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", pop_from_retry_probability=100)
    client = filled(broker, "a", "b")
    pop(broker, client, invisible_time=1_000, max_msg_nums=1)
    broker.wait(2)
    assert bodies(pop(broker, client, max_msg_nums=1)) == [b"a"]


def test_messages_of_a_topic_that_is_gone_do_not_come_again(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders"))
    broker.wait(12)
    assert len(broker.parts.pops.check_points) == 0
    assert broker.parts.topics.get(RETRY_TOPIC) is None


def test_a_topic_takes_its_retry_topics_with_it(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client, invisible_time=1_000)
    broker.wait(2)
    assert len(broker.messages(RETRY_TOPIC)) == 1
    broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders"))
    assert broker.parts.topics.get(RETRY_TOPIC) is None
    assert finish(broker.parts.offsets.groups_of(RETRY_TOPIC)) == []


def test_messages_of_a_group_that_is_gone_do_not_come_again(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    broker.parts.groups.delete("group")
    broker.wait(12)
    assert len(broker.parts.pops.check_points) == 0
    assert broker.parts.topics.get(RETRY_TOPIC) is None
