"""Lite topics: what clients subscribe to, get in order, and acknowledge; also after a kill and a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.pop.pop_taking import LOOKS
from gateway.delivery.filters import turns
from gateway.delivery.filters.turns import TURN_STEPS
from gateway.remoting.turns import finish
from gateway.store.message_store import MessageStore
from gateway.tests.broker.lite.lite_client import CTL, GROUP, PARENT, POP, LiteConsumer, made, send
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import SearchOffsetRequest
from wire.headers.topics import DeleteTopicRequest
from wire.message.record import parse_records

ON: dict[str, Any] = {"enable_lmq": True, "enable_multi_dispatch": True}


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    broker = WholeBroker(tmp_path / "store", **ON)
    made(broker)
    return broker


def queue_of(lite_topic: str) -> str:
    return f"%LMQ%${PARENT}${lite_topic}"


# -- sending ----------------------------------------------------------------------------------------------------


def test_a_message_is_in_its_parent_topic_and_in_its_lite_topic(broker: WholeBroker) -> None:
    send(broker, "a", "1", INNER_MULTI_DISPATCH="%LMQ%other")
    (message,) = broker.messages(queue_of("a"))
    assert (message.topic, message.body) == (PARENT, b"1")
    assert message.property_map["INNER_MULTI_DISPATCH"] == queue_of("a")
    assert [found.commit_log_offset for found in broker.messages(PARENT)] == [message.commit_log_offset]
    assert broker.messages("%LMQ%other") == []


@pytest.mark.parametrize(("topic", "lite_topic"), [(PARENT, ""), ("orders", "a")])
def test_without_a_lite_topic_or_in_another_topic_it_is_a_message_like_others(
    broker: WholeBroker, topic: str, lite_topic: str
) -> None:
    send(broker, lite_topic, "1", topic=topic)
    assert "INNER_MULTI_DISPATCH" not in broker.messages(topic)[0].property_map


@pytest.mark.parametrize("lite_topic", ["a b", "a/b", "ä", "x" * 250])
def test_a_name_that_no_lite_topic_can_have_is_refused(broker: WholeBroker, lite_topic: str) -> None:
    answer = broker.send(broker.connect(), PARENT, properties={"__LITE_TOPIC": lite_topic})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "lite topic" in (answer.remark or "")
    assert broker.messages(PARENT) == []


def test_where_light_queues_are_off_the_sender_is_told(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_lmq=True)
    made(broker)
    answer = broker.send(broker.connect(), PARENT, properties={"__LITE_TOPIC": "a"})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "enableMultiDispatch" in (answer.remark or "")


def test_one_lite_topic_too_many_is_refused_until_another_is_deleted(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", max_lmq_consume_queue_num=1, **ON)
    made(broker, lite_topic_expiration="30")
    send(broker, "a", "1")
    answer = broker.send(broker.connect(), PARENT, properties={"__LITE_TOPIC": "b"})
    assert answer.code == ResponseCode.LMQ_QUOTA_EXCEEDED
    broker.wait(33 * 60)
    send(broker, "b", "2")


# -- popping ----------------------------------------------------------------------------------------------------


def test_a_client_gets_what_it_subscribes_to_in_the_order_in_which_lite_topics_had_something(
    broker: WholeBroker,
) -> None:
    consumer = LiteConsumer(broker).subscribe("a", "b")
    send(broker, "b", "b1")
    send(broker, "c", "c1")
    send(broker, "a", "a1", "a2")
    send(broker, "b", "b2")
    assert consumer.texts() == ["b1", "b2", "a1", "a2"]
    assert consumer.texts() == []


def test_what_was_there_before_the_subscription_comes_too(broker: WholeBroker) -> None:
    send(broker, "a", "1", "2")
    assert LiteConsumer(broker).subscribe("a").texts() == ["1", "2"]


def test_a_lite_topic_is_closed_until_its_messages_are_acknowledged(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a", "b")
    send(broker, "a", "a1", "a2")
    first, second = consumer.pop()
    send(broker, "a", "a3")
    send(broker, "b", "b1")
    assert consumer.texts() == ["b1"]
    consumer.ack(second)
    assert consumer.texts() == []
    assert consumer.ack(first).code == ResponseCode.SUCCESS
    assert consumer.texts() == ["a3"]


def test_nothing_is_kept_of_what_is_acknowledged_and_an_acknowledgement_may_be_repeated(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1", "2")
    first, second = consumer.pop()
    consumer.ack(second, first)
    assert len(broker.parts.pops.orders) == 0
    assert consumer.ack(first).code == ResponseCode.SUCCESS
    first.offset = 7
    assert consumer.ack(first).code != ResponseCode.SUCCESS
    assert broker.parts.offsets.query(GROUP, queue_of("a"), 0) == 2


def test_what_does_not_fit_comes_after_the_acknowledgement(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a", "b")
    send(broker, "a", "a1", "a2", "a3")
    send(broker, "b", "b1")
    taken = consumer.pop(max_msg_num=2)
    assert [message.text for message in taken] == ["a1", "a2"]
    assert consumer.texts() == ["b1"]
    consumer.ack(*taken)
    assert consumer.texts() == ["a3"]


def test_a_waiting_pop_is_woken_by_its_own_lite_topics_alone(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    consumer.wait()
    send(broker, "b", "b1")
    assert consumer.woken() == []
    send(broker, "a", "a1")
    (message,) = consumer.woken()
    assert (message.text, message.times) == ("a1", 0)


@pytest.mark.parametrize("what", ["acknowledgement", "subscription"])
def test_a_waiting_pop_is_woken_by_an(broker: WholeBroker, what: str) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "a1")
    (message,) = consumer.pop()
    send(broker, "a", "a2")
    send(broker, "b", "b1")
    consumer.wait()
    other = LiteConsumer(broker)  # another connection of the same client
    if what == "acknowledgement":
        other.ack(message)
        assert [found.text for found in consumer.woken()] == ["a2"]
    else:
        other.subscribe("b")
        assert [found.text for found in consumer.woken()] == ["b1"]


def test_a_pop_that_finds_nothing_in_time_is_told_so(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    consumer.wait(5_000)
    broker.wait(4.5)
    assert consumer.peer.received() == []
    broker.wait(1)
    (answer,) = consumer.peer.received()
    assert (answer.code, answer.ext_fields["reviveQid"]) == (ResponseCode.POLLING_TIMEOUT, "999")


def test_a_pop_that_looks_again_after_the_clock_was_set_back_waits_no_longer_for_that(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    consumer.wait(5_000)
    broker._start_ms -= 3_600_000
    broker.wait(0.5)
    broker.parts.lite.held.wake(consumer.client_id, consumer.group)
    broker.wait(6)
    (answer,) = consumer.peer.received()
    assert answer.code == ResponseCode.POLLING_TIMEOUT


def test_what_is_not_acknowledged_comes_again_with_its_count_when_its_time_is_over(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1", "2")
    assert [message.times for message in consumer.pop()] == [0, 0]
    consumer.wait()
    broker.wait(9.5)
    assert consumer.peer.received() == []
    broker.wait(1)
    assert [(message.text, message.times) for message in consumer.woken()] == [("1", 1), ("2", 1)]


def test_an_acknowledgement_of_an_earlier_pop_does_not_count(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1")
    (old,) = consumer.pop()
    broker.wait(11)
    (new,) = consumer.pop()
    assert consumer.ack(old).code == ResponseCode.NO_MESSAGE
    assert consumer.ack(new).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(("suspend", "times"), [(False, 1), (True, 0)])
def test_a_message_can_be_had_again_at_another_time(broker: WholeBroker, suspend: bool, times: int) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1")
    (message,) = consumer.pop()
    answer = consumer.hide(message, 2_000, suspend=suspend)
    assert (answer.code, answer.ext_fields["invisibleTime"]) == (ResponseCode.SUCCESS, "2000")
    broker.wait(1.5)
    assert consumer.pop() == []
    broker.wait(1)
    (again,) = consumer.pop()
    assert again.times == times, "a suspended pop does not count"


def test_the_proxy_leaves_out_the_lite_topic_and_the_right_message_is_hidden(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a", "b")
    send(broker, "a", "a1")
    send(broker, "b", "b1")
    _, second = consumer.pop()
    assert consumer.hide(second, 2_000, lite_topic="").code == ResponseCode.SUCCESS
    broker.wait(3)
    assert consumer.texts() == ["b1"]


@pytest.mark.parametrize("at", ["7", "x", "99999999"])
def test_a_forged_receipt_hides_nothing(broker: WholeBroker, at: str) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "a1")
    (message,) = consumer.pop()
    message.receipt = f"{message.receipt.rpartition(' ')[0]} {at}"
    assert consumer.hide(message, 2_000, lite_topic="").code != ResponseCode.SUCCESS
    broker.wait(3)
    assert consumer.texts() == []


def test_the_same_attempt_gets_the_same_messages(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1", "2")
    assert consumer.texts(attempt_id="x") == ["1", "2"]
    again = consumer.pop(attempt_id="x")
    assert [(message.text, message.times) for message in again] == [("1", 0), ("2", 0)]
    assert consumer.texts(attempt_id="y") == []


def test_two_clients_share_a_lite_topic_and_two_groups_do_not(broker: WholeBroker) -> None:
    made(broker, group="others")
    first, second = (LiteConsumer(broker, name).subscribe("a") for name in ("client-1", "client-2"))
    stranger = LiteConsumer(broker, "client-3", "others").subscribe("a")
    first.wait()
    second.wait()
    stranger.wait()
    send(broker, "a", "1")
    assert len(first.woken()) + len(second.woken()) == 1
    assert [message.text for message in stranger.woken()] == ["1"]


def test_who_comes_after_a_client_that_is_gone_gets_what_it_left(broker: WholeBroker) -> None:
    first, second = (LiteConsumer(broker, name).subscribe("a") for name in ("client-1", "client-2"))
    send(broker, "a", "1")
    assert first.texts() == ["1"]
    broker.wait(11)
    assert second.texts() == ["1"]


def test_a_message_that_is_not_in_memory_is_read_from_the_disk(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = LiteConsumer(broker).subscribe("a", "b")
    send(broker, "a", "1")
    send(broker, "b", "2")
    monkeypatch.setattr(MessageStore, "get_messages_now", lambda *_: None)
    assert [consumer.texts(), consumer.texts()] == [["1"], ["2"]], "what holds messages does not wait for the disk"


def test_a_closed_connection_leaves_its_messages_to_the_next(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1")
    reads: list[Any] = []
    monkeypatch.setattr(MessageStore, "get_messages_now", lambda *_: None)
    broker.in_thread = lambda work, done: reads.append((work, done))
    broker.ask_all(consumer.peer, POP, consumer.popping())
    consumer.peer.leave()
    for work, done in reads:
        done(work())
    monkeypatch.undo()
    assert LiteConsumer(broker).texts() == ["1"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"consumer_group": "unbound"}, ResponseCode.INVALID_PARAMETER),
        ({"consumer_group": ""}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "orders"}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_num": 0}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_num": 33}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": -1}, ResponseCode.INVALID_PARAMETER),
        ({"born_time": START_MS - 60_000}, ResponseCode.POLLING_TIMEOUT),
    ],
)
def test_a_pop_that_cannot_be_is_refused(broker: WholeBroker, changed: dict[str, Any], code: ResponseCode) -> None:
    broker.send(broker.connect())
    consumer = LiteConsumer(broker)
    assert broker.ask(consumer.peer, POP, consumer.popping(**changed)).code == code


# -- subscriptions ----------------------------------------------------------------------------------------------


def test_a_client_that_unsubscribes_gets_nothing_more(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker).subscribe("a", "b")
    consumer.tell("PARTIAL_REMOVE", "a")
    send(broker, "a", "a1")
    send(broker, "b", "b1")
    assert consumer.texts() == ["b1"]
    consumer.tell("COMPLETE_REMOVE")
    send(broker, "b", "b2")
    assert consumer.texts() == []
    assert broker.parts.lite.subscriptions.count == 0


def test_all_subscriptions_told_at_once_take_the_place_of_the_former(broker: WholeBroker) -> None:
    send(broker, "c", "c1")
    consumer = LiteConsumer(broker).subscribe("a", "b")
    assert consumer.tell("COMPLETE_ADD", "b", "c").code == ResponseCode.SUCCESS
    send(broker, "a", "a1")
    send(broker, "b", "b1")
    assert sorted(consumer.texts()) == ["b1", "c1"]


def test_a_client_that_tells_nothing_for_long_is_forgotten(broker: WholeBroker) -> None:
    LiteConsumer(broker).subscribe("a")
    LiteConsumer(broker, "silent").subscribe("a")
    broker.wait(100)
    LiteConsumer(broker).tell("COMPLETE_ADD", "a")
    broker.wait(170)
    assert [client.client_id for client in broker.parts.lite.subscriptions] == ["client-1"]
    send(broker, "a", "1")
    assert LiteConsumer(broker, "silent").texts() == []
    assert LiteConsumer(broker).texts() == ["1"]


def test_one_subscription_too_many_is_refused(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", max_lite_subscription_count=2, **ON)
    made(broker)
    consumer = LiteConsumer(broker).subscribe("a", "b")
    for action in ("PARTIAL_ADD", "COMPLETE_ADD"):
        answer = consumer.tell(action, "a", "b", "c")
        assert answer.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    consumer.tell("PARTIAL_REMOVE", "a")
    consumer.subscribe("c")


def test_in_an_exclusive_group_the_last_to_subscribe_has_the_lite_topic_alone(broker: WholeBroker) -> None:
    made(broker, attributes={"lite.sub.model": "Exclusive"})
    first = LiteConsumer(broker).subscribe("a", "b")
    second = LiteConsumer(broker, "client-2").subscribe("a")
    (notice,) = first.peer.received()
    assert notice.code == RequestCode.NOTIFY_UNSUBSCRIBE_LITE
    assert notice.ext_fields == {"liteTopic": "a", "consumerGroup": GROUP, "clientId": "client-1"}
    send(broker, "a", "a1")
    send(broker, "b", "b1")
    assert first.texts() == ["b1"]
    assert second.texts() == ["a1"]


@pytest.mark.parametrize(("resets", "found"), [("true", ["1", "2"]), ("false", ["2"])])
def test_who_takes_a_lite_topic_over_may_begin_anew(broker: WholeBroker, resets: str, found: list[str]) -> None:
    made(broker, attributes={"lite.sub.model": "Exclusive", "lite.sub.reset.offset.exclusive": resets})
    first = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1")
    first.ack(*first.pop())
    second = LiteConsumer(broker, "client-2").subscribe("a")
    send(broker, "a", "2")
    assert second.texts() == found


@pytest.mark.parametrize(("resets", "found"), [("true", ["1"]), ("false", [])])
def test_after_an_unsubscription_a_group_may_begin_anew(broker: WholeBroker, resets: str, found: list[str]) -> None:
    made(broker, attributes={"lite.sub.reset.offset.unsubscribe": resets})
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1")
    consumer.ack(*consumer.pop())
    consumer.tell("PARTIAL_REMOVE", "a")
    assert consumer.subscribe("a").texts() == found


def test_a_wildcard_group_has_all_lite_topics(broker: WholeBroker) -> None:
    made(broker, attributes={"lite.sub.wildcard": "true"})
    send(broker, "a", "a1")
    consumer = LiteConsumer(broker)
    assert consumer.tell("PARTIAL_ADD", "a").code == ResponseCode.ILLEGAL_OPERATION
    assert consumer.tell("COMPLETE_ADD").code == ResponseCode.SUCCESS
    assert consumer.tell("COMPLETE_ADD").code == ResponseCode.SUCCESS
    assert broker.parts.lite.subscriptions.count == 1
    send(broker, "b", "b1")
    assert consumer.texts() == ["a1", "b1"]


@pytest.mark.parametrize(
    ("option", "new", "known"),
    [
        ({"type": "POLICY", "value": 0}, "0123", "3"),
        ({"type": "POLICY", "value": 1}, "0123", "0123"),
        ({"type": "POLICY", "value": 2}, "", ""),
        ({"type": "OFFSET", "value": 1}, "123", "123"),
        ({"type": "OFFSET", "value": 9}, "", ""),
        ({"type": "OFFSET", "value": -5}, "0123", "0123"),
        ({"type": "TAIL_N", "value": 1}, "3", "23"),
        ({"type": 3, "value": START_MS + 1_500}, "23", "23"),
    ],
)
def test_a_client_says_where_its_group_goes_on(
    broker: WholeBroker, option: dict[str, Any], new: str, known: str
) -> None:
    made(broker, group="known")
    for number in range(4):
        send(broker, "a", str(number))
        broker.wait(1)
    broker.parts.offsets.commit("known", queue_of("a"), 0, 3)
    for group, found in ((GROUP, new), ("known", known)):
        consumer = LiteConsumer(broker, group, group).subscribe("a", offsetOption=option)
        assert "".join(consumer.texts()) == found


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"action": "NOPE"}, ResponseCode.ILLEGAL_OPERATION),
        ({"clientId": ""}, ResponseCode.ILLEGAL_OPERATION),
        ({"clientId": "x" * 256}, ResponseCode.ILLEGAL_OPERATION),
        ({"group": "unbound"}, ResponseCode.INVALID_PARAMETER),
        ({"group": "idle"}, ResponseCode.NO_PERMISSION),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "orders"}, ResponseCode.INVALID_PARAMETER),
        ({"liteTopicSet": ["a b"]}, ResponseCode.ILLEGAL_OPERATION),
        ({"liteTopicSet": [""]}, ResponseCode.ILLEGAL_OPERATION),
        ({"offsetOption": {"type": "NOPE", "value": 1}}, ResponseCode.ILLEGAL_OPERATION),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(
    broker: WholeBroker, changed: dict[str, Any], code: ResponseCode
) -> None:
    broker.send(broker.connect())
    idle = SubscriptionGroupConfig(group_name="idle", consume_enable=False, attributes={"lite.bind.topic": PARENT})
    broker.parts.groups.put(idle)
    answer = LiteConsumer(broker).tell("PARTIAL_ADD", *changed.pop("liteTopicSet", ["a"]), **changed)
    assert answer.code == code


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"subscriptionSet":[]}', b'{"subscriptionSet":[{}]}', b"\xff"])
def test_a_body_that_is_none_is_refused(broker: WholeBroker, body: bytes) -> None:
    assert broker.ask(broker.connect(), CTL, body=body).code != ResponseCode.SUCCESS
    assert len(broker.parts.lite.subscriptions) == 0


# -- pulling ----------------------------------------------------------------------------------------------------


def test_a_lite_topic_is_pulled_and_searched_as_a_queue(broker: WholeBroker) -> None:
    client = broker.connect()
    send(broker, "a", "1")
    broker.wait(1)
    send(broker, "a", "2")
    header = pulling(1, topic=PARENT, queue_id=3, lite_topic="a")
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, header)
    assert [message.body for message in parse_records(answer.body)] == [b"2"]
    asked = SearchOffsetRequest(topic=PARENT, queue_id=3, timestamp=START_MS + 500, lite_topic="a")
    found = broker.ask(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, asked)
    assert found.ext_fields["offset"] == "1"


# -- kill and restart -------------------------------------------------------------------------------------------


def test_a_kill_keeps_messages_progress_and_what_is_in_hand(broker: WholeBroker, tmp_path: Path) -> None:
    consumer = LiteConsumer(broker).subscribe("a", "b")
    send(broker, "a", "a1", "a2", "a3")
    send(broker, "b", "b1")
    first, second, _ = consumer.pop(max_msg_num=3)
    consumer.ack(first)
    broker.wait(1)
    for again in (broker.crash_image(tmp_path / "killed"), broker.restart()):
        after = LiteConsumer(again)
        assert after.texts() == [], "clients tell their subscriptions anew"
        assert after.tell("COMPLETE_ADD", "a", "b").code == ResponseCode.SUCCESS
        assert after.texts() == ["b1"], "what was popped before is still in hand"
        assert after.ack(second).code == ResponseCode.SUCCESS
        send(again, "a", "a4")
        again.wait(11)
        assert [(found.text, found.times) for found in after.pop()] == [("a3", 1), ("a4", 0), ("b1", 1)]


def test_after_a_kill_what_was_acknowledged_does_not_come_again(broker: WholeBroker, tmp_path: Path) -> None:
    consumer = LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1", "2")
    consumer.ack(*consumer.pop())
    send(broker, "a", "3")
    again = broker.crash_image(tmp_path / "killed")
    assert LiteConsumer(again).subscribe("a").texts() == ["3"]


# -- deletion ---------------------------------------------------------------------------------------------------


def test_a_lite_topic_is_deleted_when_its_time_is_over(broker: WholeBroker, tmp_path: Path) -> None:
    made(broker, lite_topic_expiration="30")
    consumer = LiteConsumer(broker).subscribe("a", "b")
    send(broker, "a", "a1", "a2")
    consumer.ack(*consumer.pop())
    broker.wait(20 * 60)
    send(broker, "b", "b1")
    broker.wait(13 * 60)
    assert (broker.messages(queue_of("a")), len(broker.messages(queue_of("b")))) == ([], 1)
    assert broker.parts.offsets.query(GROUP, queue_of("a"), 0) == -1
    for again in (broker.crash_image(tmp_path / "killed"), broker.restart()):
        assert again.messages(queue_of("a")) == []
        consumer = LiteConsumer(again).subscribe("a")
        send(again, "a", "new")
        assert consumer.texts() == ["new"], "a lite topic of this name begins anew"


def test_a_lite_topic_stays_for_the_least_time_and_without_a_time_for_ever(broker: WholeBroker) -> None:
    made(broker, lite_topic_expiration="1")
    send(broker, "a", "a1")
    broker.wait(14 * 60)
    assert len(broker.messages(queue_of("a"))) == 1
    made(broker)
    broker.wait(60 * 60)
    assert len(broker.messages(queue_of("a"))) == 1
    made(broker, lite_topic_expiration="1")
    broker.wait(4 * 60)
    assert broker.messages(queue_of("a")) == []


def test_a_deleted_parent_takes_its_lite_topics_along(broker: WholeBroker) -> None:
    broker.parts.topics.put(TopicConfig(f"{PARENT}2", 1, 1, 6, attributes={"message.type": "LITE"}))
    LiteConsumer(broker).subscribe("a")
    send(broker, "a", "1")
    send(broker, "a", "2", topic=f"{PARENT}2")
    answer = broker.ask(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic=PARENT))
    assert answer.code == ResponseCode.SUCCESS
    assert broker.messages(queue_of("a")) == []
    assert len(broker.messages(f"%LMQ%${PARENT}2$a")) == 1
    assert len(broker.parts.lite.subscriptions) == 0


def test_a_topic_list_takes_the_attributes_of_lite_topics(broker: WholeBroker) -> None:
    body = {
        "topicConfigList": [
            {
                "topicName": "made",
                "readQueueNums": 1,
                "writeQueueNums": 1,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                "attributes": {"+message.type": "LITE", "+lite.topic.expiration": "43200"},
            }
        ]
    }
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    assert broker.ask(broker.connect(), code, body=json.dumps(body).encode()).code == ResponseCode.SUCCESS
    assert finish(broker.parts.lite.parents()) == {PARENT: -1, "made": 43_200}


def test_a_client_that_does_not_read_leaves_its_message_to_another_that_waits(broker: WholeBroker) -> None:
    slow, quick = LiteConsumer(broker, "a").subscribe("t"), LiteConsumer(broker, "b").subscribe("t")
    slow.wait()
    quick.wait()
    slow.peer.transport.full()
    slow.peer.channel.send_frame(bytes(2 << 20))
    send(broker, "t", "hello")
    for _ in range(3):
        broker.turn()
    assert [message.text for message in quick.woken()] == ["hello"]


def one_read_by_another_pop(broker: WholeBroker, consumer: LiteConsumer) -> None:
    """Have a lite topic that another pop reads from the disk, and so many with messages in hand that a turn is over."""
    names = [f"t{number}" for number in range(LOOKS)]
    consumer.subscribe("free", *names)
    for name in names:
        send(broker, name, "in hand")
    while consumer.pop(max_msg_num=32):
        pass
    for name in ("free", *names):
        send(broker, name, "next")
    broker.parts.pops.positions.begin_read((queue_of("free"), GROUP, 0))
    broker.parts.filter_turns.spend(TURN_STEPS)


def is_ready(broker: WholeBroker) -> bool:
    """Return whether the client gets that lite topic when it pops next."""
    (client,) = broker.parts.lite.subscriptions
    return queue_of("free") in client.ready


def test_a_pop_that_is_refused_a_turn_leaves_its_lite_topics_ready(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = LiteConsumer(broker)
    one_read_by_another_pop(broker, consumer)
    monkeypatch.setattr(turns, "MAX_WAITING", 0)
    assert consumer.peer.ask(POP, consumer.popping(poll_time=0)).code == ResponseCode.SYSTEM_BUSY
    assert is_ready(broker)


def test_a_pop_that_waits_until_its_peer_has_read_leaves_its_lite_topics_ready(broker: WholeBroker) -> None:
    consumer = LiteConsumer(broker)
    one_read_by_another_pop(broker, consumer)
    assert consumer.peer.ask_all(POP, consumer.popping(poll_time=0)) == []
    consumer.peer.transport.full()
    consumer.peer.channel.send_frame(bytes(2 << 20))
    broker.turn()
    consumer.peer.leave()
    broker.turn()
    assert is_ready(broker)
