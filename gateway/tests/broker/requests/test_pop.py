"""Popping: where messages come from, how they are hidden, what comes again, and what a kill leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.store.message_store import MessageStore
from gateway.tests.broker.popping import (
    POP,
    RETRY_TOPIC,
    ack,
    bodies,
    filled,
    infos,
    messages,
    pop,
    popping,
)
from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import ResetOffsetRequest
from wire.headers.topics import DeleteTopicRequest


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


def _sending(body: bytes) -> Any:
    from gateway.tests.broker.whole_broker import sending
    from wire.command import RemotingCommand
    from wire.headers.declare import build_header

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
    broker.send(client, RETRY_TOPIC, b"older")
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
    assert broker.parts.offsets.groups_of(RETRY_TOPIC) == []


def test_messages_of_a_group_that_is_gone_do_not_come_again(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    broker.parts.groups.delete("group")
    broker.wait(12)
    assert len(broker.parts.pops.check_points) == 0
    assert broker.parts.topics.get(RETRY_TOPIC) is None


# -- resets -----------------------------------------------------------------------------------------------------


def _reset(offset: int) -> ResetOffsetRequest:
    return ResetOffsetRequest(topic="orders", group="group", queue_id=0, timestamp=-1, is_force=True, offset=offset)


def test_a_reset_sends_the_next_pop_back(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    for message in pop(broker, client):
        ack(broker, client, message)
    assert broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, _reset(1)).code == ResponseCode.SUCCESS
    assert bodies(pop(broker, client)) == [b"b", b"c"]


def test_a_reset_is_not_undone_by_older_pops_after_a_kill(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b", "c")
    for message in pop(broker, client):
        ack(broker, client, message)
    broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, _reset(1))
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect())) == [b"b", b"c"]


def test_a_reset_while_a_pop_is_on_its_way_to_the_disk_holds_also_after_a_kill(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b", "c")
    work: list[Callable[[], None]] = []
    broker.in_log_thread = lambda job, done: work.append(lambda: done(job()))
    client.send(_popping_command())
    broker.reactor.advance(0)
    broker.parts.offsets.reset("group", "orders", 0, 1)
    broker.parts.pops.reset("group", "orders", [(0, 1)])
    while work:
        work.pop(0)()
        broker.turn()
    assert broker.parts.offsets.query("group", "orders", 0) == 1
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect())) == [b"b", b"c"]


def _popping_command() -> Any:
    from wire.command import RemotingCommand
    from wire.headers.declare import build_header

    return RemotingCommand(POP, ext_fields=build_header(popping()))


# -- kills ------------------------------------------------------------------------------------------------------


def test_a_kill_loses_nothing_that_is_open_and_forgets_nothing_that_is_done(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b", "c")
    popped = pop(broker, client)
    ack(broker, client, popped[0])
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    assert pop(killed, client) == []
    assert ack(killed, client, popped[1]) == ResponseCode.SUCCESS
    killed.wait(11)
    assert bodies(pop(killed, client)) == [b"c"]


def test_what_came_again_before_a_kill_does_not_come_once_more(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    broker.wait(11)
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    (message,) = pop(killed, client)
    ack(killed, client, message)
    killed.wait(30)
    assert pop(killed, client) == []


def test_offsets_that_were_saved_before_are_moved_by_what_was_popped_since(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b", "c", "d")
    for message in pop(broker, client, max_msg_nums=1):
        ack(broker, client, message)
    broker.wait(6)  # saved
    for message in pop(broker, client, max_msg_nums=2):
        ack(broker, client, message)
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect())) == [b"d"]


def test_an_orderly_stop_leaves_little_to_read(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    first, second = pop(broker, client)
    ack(broker, client, first)
    again = broker.restart()
    assert len(again.parts.pops.check_points) == 1
    client = again.connect()
    ack(again, client, second)
    last = again.restart()
    assert last.parts.pops.revive_log.rebuild(-1) == 0
    assert pop(last, last.connect()) == []


def test_old_records_that_are_still_needed_are_written_again(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from gateway.delivery.pop import revive_log

    monkeypatch.setattr(revive_log, "MAX_REPLAY", 2)
    client = filled(broker, *"abcdefgh")
    (kept,) = pop(broker, client, max_msg_nums=1, invisible_time=600_000)
    queue = int(kept.words[3])
    for _ in range(7):
        for message in pop(broker, client, max_msg_nums=1):
            ack(broker, client, message)
    point = broker.parts.pops.check_points.first_open(queue)
    assert point is not None
    first = point.revive_offset
    for _ in range(10):
        broker.parts.pops.revive_log.append([point.record("broker-a")], (queue + 1) % 8, lambda _: None)
    broker.parts.pops.revive_log._last[queue] += 3
    broker.wait(2)
    assert point.revive_offset > first
    killed = broker.crash_image(tmp_path / "killed")
    killed.wait(601)
    assert bodies(pop(killed, killed.connect())) == [b"a"]


def test_a_store_that_takes_nothing_pops_nothing_and_goes_on_later(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a")
    with monkeypatch.context() as full:
        full.setattr(broker.parts.store._admission, "refusal", "disk full")
        assert broker.ask(client, POP, popping()).code == ResponseCode.SYSTEM_ERROR
    assert bodies(pop(broker, client)) == [b"a"]


def test_messages_that_cannot_be_stored_again_come_when_they_can(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    with monkeypatch.context() as full:
        full.setattr(broker.parts.store._admission, "refusal", "disk full")
        broker.wait(15)
    broker.wait(2)
    assert bodies(pop(broker, client)) == [b"a"]


# -- in order ---------------------------------------------------------------------------------------------------


def test_ordered_pops_close_the_queue_until_all_is_acknowledged(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    answer = broker.ask(client, POP, popping(order=True, max_msg_nums=2))
    first = messages(answer)
    assert [message.record.body for message in first] == [b"a", b"b"]
    assert answer.ext_fields["reviveQid"] == "999"
    assert infos(answer.ext_fields["orderCountInfo"]) == {("0", "0"): "0"}
    assert pop(broker, client, order=True) == []
    assert ack(broker, client, first[0]) == ResponseCode.SUCCESS
    assert pop(broker, client, order=True) == []
    assert ack(broker, client, first[1]) == ResponseCode.SUCCESS
    assert bodies(pop(broker, client, order=True)) == [b"c"]


def test_ordered_messages_come_again_in_place_and_are_counted(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    (first, _) = pop(broker, client, order=True)
    ack(broker, client, first)
    broker.wait(11)
    broker.send(client, body=b"c")
    answer = broker.ask(client, POP, popping(order=True))
    assert [message.record.body for message in messages(answer)] == [b"b", b"c"]
    assert infos(answer.ext_fields["orderCountInfo"]) == {("0", "qo0%1"): "1", ("0", "0"): "0"}
    assert broker.parts.topics.get(RETRY_TOPIC) is None


def test_the_same_attempt_gets_the_same_messages(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    assert bodies(pop(broker, client, order=True, attempt_id="one")) == [b"a", b"b"]
    assert pop(broker, client, order=True, attempt_id="two") == []
    assert bodies(pop(broker, client, order=True, attempt_id="one")) == [b"a", b"b"]


def test_who_waits_for_a_closed_queue_is_woken_when_it_opens(broker: WholeBroker) -> None:
    client, waiting = filled(broker, "a", "b"), broker.connect()
    (first,) = pop(broker, client, order=True, max_msg_nums=1)
    assert broker.ask_all(waiting, POP, popping(order=True, poll_time=60_000, max_msg_nums=1)) == []
    ack(broker, client, first)
    (answer,) = waiting.received()
    assert bodies(messages(answer)) == [b"b"]
    assert broker.ask_all(waiting, POP, popping(order=True, poll_time=60_000)) == []
    broker.wait(11)
    (answer,) = waiting.received()
    assert bodies(messages(answer)) == [b"b"]


def test_a_kill_keeps_queues_closed_and_what_is_acknowledged(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b", "c")
    first, second = pop(broker, client, order=True, max_msg_nums=2)
    ack(broker, client, first)
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    assert pop(killed, client, order=True) == []
    assert ack(killed, client, second) == ResponseCode.SUCCESS
    assert bodies(pop(killed, client, order=True)) == [b"c"]


def test_ordered_pops_survive_a_stop_in_their_file(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    (first,) = pop(broker, client, order=True, max_msg_nums=1)
    again = broker.restart()
    client = again.connect()
    assert pop(again, client, order=True) == []
    assert ack(again, client, first) == ResponseCode.SUCCESS
    assert bodies(pop(again, client, order=True)) == [b"b"]


def test_a_reset_opens_a_closed_queue(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    (first,) = pop(broker, client, order=True, max_msg_nums=1)
    ack(broker, client, first)
    (_,) = pop(broker, client, order=True, max_msg_nums=1)
    broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, _reset(0))
    assert bodies(pop(broker, client, order=True)) == [b"a", b"b"]


def test_what_is_read_again_after_a_stop_does_not_overtake_what_was_saved(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", revive_queue_num=2)
    client = filled(broker, "a", "b", "c")
    pop(broker, client, consumer_group="others", invisible_time=100_000, max_msg_nums=1)  # its queue is read again
    for _ in range(2):
        (message,) = pop(broker, client, order=True, max_msg_nums=1, invisible_time=60_000)
        ack(broker, client, message)
    (third,) = pop(broker, client, order=True, max_msg_nums=1, invisible_time=60_000)
    again = broker.restart()
    client = again.connect()
    assert pop(again, client, order=True) == []
    assert ack(again, client, third) == ResponseCode.SUCCESS


# -- topics made anew -------------------------------------------------------------------------------------------


def _delete_topic(broker: WholeBroker) -> None:
    header = DeleteTopicRequest(topic="orders")
    broker.ask_all(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, header)


def test_what_was_popped_of_a_deleted_topic_is_no_pop_of_the_new_one_after_a_kill(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client)
    broker.wait(1)
    _delete_topic(broker)
    filled(broker, "x", "y", "z")
    for message in pop(broker, client, max_msg_nums=2):
        ack(broker, client, message)
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    killed.wait(12)
    assert bodies(pop(killed, client)) == [b"z"]


def test_ordered_pops_of_a_deleted_topic_do_not_close_the_new_one_after_a_kill(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client, order=True)
    _delete_topic(broker)
    filled(broker, "x", "y")
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect(), order=True)) == [b"x", b"y"]


def test_a_pop_on_its_way_to_the_disk_does_not_move_a_topic_that_is_made_anew(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b", "c")
    work: list[Callable[[], None]] = []
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(broker, "in_log_thread", lambda job, done: work.append(lambda: done(job())))
        client.send(_popping_command())
        broker.turn()
        _delete_topic(broker)
        while work:
            work.pop(0)()
            broker.turn()
    filled(broker, "x", "y", "z", "!")
    killed = broker.crash_image(tmp_path / "killed")
    for one in (killed, broker):
        client = one.connect()
        for message in pop(one, client):
            ack(one, client, message)
            assert message.record.body in (b"x", b"y", b"z", b"!")
        assert one.parts.offsets.query("group", "orders", 0) == 4
        one.wait(12)
        assert pop(one, client) == []
