"""Sending back: a message that could not be consumed waits for its next try, or ends in the dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.message.message_id import parse_offset_message_id
from wire.message.record import MOST_TIMES

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


class Failing:
    """A consumer that received one message and fails on it."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.broker = WholeBroker(directory / "store", **settings)
        self.peer = self.broker.connect()
        self.broker.parts.groups.put(SubscriptionGroupConfig("group"))
        sent = self.broker.send(self.peer, properties={"KEYS": "k", "UNIQ_KEY": "U", "DELAY": "-1"}, flag=3)
        self.message_id = sent.ext_fields["msgId"]
        self.offset = parse_offset_message_id(self.message_id)[1]

    def send_back(self, *, version: int = 513, **changed: Any) -> RemotingCommand:
        values: dict[str, Any] = {"offset": self.offset, "group": "group", "delay_level": 0}
        header = ConsumerSendMsgBackRequest(**{**values, **changed})
        return self.broker.ask(self.peer, RequestCode.CONSUMER_SEND_MSG_BACK, header, version=version)


@pytest.fixture
def failing(tmp_path: Path) -> Failing:
    return Failing(tmp_path)


def test_the_message_comes_again_after_ten_seconds_in_the_retry_topic(failing: Failing) -> None:
    answer = failing.send_back()
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    failing.broker.wait(9.5)
    assert failing.broker.messages("%RETRY%group") == []
    failing.broker.wait(1)
    [again] = failing.broker.messages("%RETRY%group")
    assert (again.body, again.flag, again.reconsume_times, again.unique_key) == (b"hello", 3, 1, "U")
    properties = again.property_map
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", failing.message_id)
    assert properties["DELAY"] == "3"


def test_topic_and_first_id_survive_a_second_failure(failing: Failing) -> None:
    failing.send_back(delay_level=1)
    failing.broker.wait(2)
    [first] = failing.broker.messages("%RETRY%group")
    failing.send_back(offset=first.commit_log_offset)
    [second] = failing.broker.messages(SCHEDULE, 3)
    assert (second.reconsume_times, second.property_map["DELAY"]) == (2, "4")
    properties = second.property_map
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", failing.message_id)


@pytest.mark.parametrize(("characters", "level"), [(249, 1), (252, -1)], ids=["retry", "dead letter"])
def test_a_group_whose_name_leaves_no_room_for_its_topic_is_told_so_and_holds_up_nobody(
    failing: Failing, characters: int, level: int
) -> None:
    group = "g" * characters
    failing.broker.parts.groups.put(SubscriptionGroupConfig(group))
    answer = failing.send_back(group=group, delay_level=level)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark is not None
    assert "255" in answer.remark
    failing.send_back(delay_level=1)
    failing.broker.wait(1.5)
    assert len(failing.broker.messages("%RETRY%group")) == 1


@pytest.mark.parametrize(
    ("level", "queue_id"), [(0, 2), (1, 0), (4, 3), (99, 3)], ids=["usual", "first", "last", "beyond"]
)
def test_the_consumer_may_choose_the_level(failing: Failing, level: int, queue_id: int) -> None:
    failing.send_back(delay_level=level)
    assert len(failing.broker.messages(SCHEDULE, queue_id)) == 1


@pytest.mark.parametrize(
    ("changed", "version"),
    [({"delay_level": -1}, 513), ({"max_reconsume_times": 0}, 513), ({"max_reconsume_times": 0}, 121)],
)
def test_given_up_messages_are_dead_letters_at_once(failing: Failing, changed: dict[str, int], version: int) -> None:
    assert failing.send_back(version=version, **changed).code == ResponseCode.SUCCESS
    [dead] = failing.broker.messages("%DLQ%group")
    assert dead.reconsume_times == 1
    assert (dead.property_map["RETRY_TOPIC"], dead.property_map["DELAY"]) == ("orders", "0")
    assert failing.broker.parts.topics.get("%DLQ%group") == TopicConfig("%DLQ%group", 1, 1, 6)


def test_the_group_s_limit_counts_for_old_clients_and_those_that_name_none(failing: Failing) -> None:
    failing.broker.parts.groups.put(SubscriptionGroupConfig("group", retry_max_times=0))
    failing.send_back()
    failing.send_back(max_reconsume_times=9, version=120)
    assert len(failing.broker.messages("%DLQ%group")) == 2
    failing.send_back(max_reconsume_times=9)
    assert len(failing.broker.messages("%DLQ%group")) == 2


@pytest.mark.parametrize("limit", [MOST_TIMES, -1])
def test_a_message_whose_count_cannot_rise_goes_to_the_dead_letters(failing: Failing, limit: int) -> None:
    sent = failing.broker.send(failing.peer, reconsume_times=MOST_TIMES)
    offset = parse_offset_message_id(sent.ext_fields["msgId"])[1]
    assert failing.send_back(offset=offset, max_reconsume_times=limit).code == ResponseCode.SUCCESS
    (dead,) = failing.broker.messages("%DLQ%group")
    assert dead.reconsume_times == MOST_TIMES


def test_a_group_without_retry_queues_gets_nothing_back(failing: Failing) -> None:
    failing.broker.parts.groups.put(SubscriptionGroupConfig("group", retry_queue_nums=0))
    assert failing.send_back(offset=999_999).code == ResponseCode.SUCCESS
    assert failing.broker.parts.topics.get("%RETRY%group") is None


def test_retries_never_go_to_queues_that_the_retry_topic_does_not_have(failing: Failing) -> None:
    failing.broker.parts.topics.put(TopicConfig("%RETRY%group", 1, 1, 6))
    failing.broker.parts.groups.put(SubscriptionGroupConfig("group", retry_queue_nums=64))
    for _ in range(8):
        failing.send_back()
    assert {message.property_map["REAL_QID"] for message in failing.broker.messages(SCHEDULE, 2)} == {"0"}


def test_the_retry_topic_of_a_unit_says_so(failing: Failing) -> None:
    failing.send_back(unit_mode=True)
    assert failing.broker.parts.topics.get("%RETRY%group") == TopicConfig("%RETRY%group", 1, 1, 6, topic_sys_flag=2)


@pytest.mark.parametrize("offset", [-1, 3, 999_999, 2**62])
def test_a_message_that_is_not_there_is_a_system_error(failing: Failing, offset: int) -> None:
    answer = failing.send_back(offset=offset)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert str(offset) in (answer.remark or "")


def test_the_checks_before_that(tmp_path: Path) -> None:
    failing = Failing(tmp_path, auto_create_subscription_group=False)
    assert failing.send_back(group="unknown", offset=-1).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    failing.broker.parts.topics.put(TopicConfig("%RETRY%group", 1, 1, perm=4))
    assert failing.send_back().code == ResponseCode.NO_PERMISSION


def test_a_read_only_broker_takes_nothing_back(tmp_path: Path) -> None:
    assert Failing(tmp_path, broker_permission=4).send_back().code == ResponseCode.NO_PERMISSION


def test_a_failed_store_is_told_so_that_the_client_sends_the_message_itself(failing: Failing) -> None:
    failing.broker.parts.store._admission.refusal = "disk full"
    answer = failing.send_back()
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE")
