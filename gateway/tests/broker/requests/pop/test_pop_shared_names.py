"""The older retry topic of pops of ``group`` from ``orders`` is also the retry topic of a group ``group_orders``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.access.needs import reading_needs
from gateway.remoting.declared import Action, Kind, Need
from gateway.tests.broker.popping import RETRY_TOPIC, ack, bodies, filled, pop
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.headers.pop import NotificationRequest, PeekMessageRequest
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.headers.topics import DeleteTopicRequest
from wire.message.flags import PullFlag
from wire.message.record import parse_records

OTHER = "group_orders"
TOPICS = {"group": "a_b", "group_a": "b"}
"""The topics that two groups pop from, whose messages come again in one retry topic."""


def given_back(broker: WholeBroker, client: Peer, properties: str | None = None) -> None:
    """Let the other group give back a message of another topic."""
    broker.send(client, "secret", b"of the other group", properties=properties)
    broker.parts.groups.find(OTHER)
    place = broker.messages("secret")[-1].commit_log_offset
    back = ConsumerSendMsgBackRequest(offset=place, group=OTHER, delay_level=1, origin_topic="secret")
    assert broker.ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back).code == ResponseCode.SUCCESS
    broker.wait(2)


@pytest.mark.parametrize(
    "filtered",
    [{}, {"expression_type": "SQL92", "subscription": "TAGS IS NOT NULL"}, {"subscription": "a"}],
    ids=["without a filter", "SQL92", "tags"],
)
def test_a_group_gets_only_what_it_gave_back_itself(tmp_path: Path, filtered: dict[str, Any]) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "of the pop", properties="TAGS\x01a\x02")
    assert bodies(pop(broker, client, invisible_time=1_000)) == [b"of the pop"]
    broker.wait(3)
    given_back(broker, client, "TAGS\x01a\x02")
    assert [message.body for message in broker.messages(RETRY_TOPIC)] == [b"of the pop", b"of the other group"]
    header = pulling(consumer_group=OTHER, topic=RETRY_TOPIC, sys_flag=PullFlag.SUBSCRIPTION, **filtered)
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, header)
    assert [message.body for message in parse_records(answer.body)] == [b"of the other group"]
    assert answer.ext_fields["nextBeginOffset"] == "2"
    broker.stop()


def test_a_group_gets_what_others_popped_elsewhere_and_it_gave_back(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    popped = "1ST_POP_TIME\x011\x02ORIGIN_GROUP\x01group\x02"
    given_back(broker, client, popped)
    header = pulling(consumer_group=OTHER, topic=RETRY_TOPIC, sys_flag=PullFlag.SUBSCRIPTION)
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, header)
    assert [message.body for message in parse_records(answer.body)] == [b"of the other group"]
    broker.stop()


@pytest.mark.parametrize("sent_on", ["RETRY_TOPIC\x01secret\x02", "ORIGIN_GROUP\x01another\x02"])
def test_a_message_sent_on_with_the_properties_of_a_retry_comes_again_only_to_who_popped_it(
    tmp_path: Path, sent_on: str
) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "of the pop", properties=f"TAGS\x01a\x021ST_POP_TIME\x011\x02{sent_on}")
    assert bodies(pop(broker, client, invisible_time=1_000)) == [b"of the pop"]
    broker.wait(3)
    (message,) = broker.messages(RETRY_TOPIC)
    assert "RETRY_TOPIC" not in message.property_map
    assert reading_needs(message) == [
        Need(Kind.GROUP, "group", Action.SUB | Action.GET),
        Need(Kind.TOPIC, "orders", Action.SUB | Action.GET),
    ]
    broker.parts.groups.find(OTHER)
    header = pulling(consumer_group=OTHER, topic=RETRY_TOPIC, sys_flag=PullFlag.SUBSCRIPTION)
    assert broker.ask(client, RequestCode.PULL_MESSAGE, header).code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert bodies(pop(broker, client)) == [b"of the pop"]
    broker.stop()


@pytest.mark.parametrize("newer", [False, True])
def test_a_pop_takes_nothing_that_another_group_gave_back(tmp_path: Path, newer: bool) -> None:
    broker = WholeBroker(tmp_path / "store", enable_retry_topic_v2=newer, retrieve_message_from_pop_retry_topic_v1=True)
    client = filled(broker, "mine")
    given_back(broker, client)
    assert bodies(pop(broker, client)) == [b"mine"]
    assert pop(broker, client) == []
    peeking = PeekMessageRequest(consumer_group="group", topic="orders", queue_id=-1, max_msg_nums=32)
    assert broker.ask(client, RequestCode.PEEK_MESSAGE, peeking).code == ResponseCode.PULL_NOT_FOUND
    broker.stop()


def test_messages_come_again_to_who_popped_them_and_not_to_the_other_group(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine")
    given_back(broker, client)
    for times in range(3):
        (message,) = pop(broker, client, invisible_time=1_000)
        assert (message.record.body, message.record.reconsume_times) == (b"mine", times)
        broker.wait(3)
    assert [message.body for message in broker.messages(RETRY_TOPIC)] == [b"of the other group"]
    (message,) = pop(broker, client)
    assert ack(broker, client, message) == ResponseCode.SUCCESS
    broker.stop()


def test_what_was_popped_before_the_other_group_came_is_not_lost(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine")
    assert bodies(pop(broker, client, invisible_time=1_000)) == [b"mine"]
    broker.wait(3)
    assert [message.body for message in broker.messages(RETRY_TOPIC)] == [b"mine"]
    given_back(broker, client)
    assert bodies(pop(broker, client)) == [b"mine"]
    assert pop(broker, client) == []
    broker.stop()


def test_a_topic_is_deleted_without_what_another_group_gave_back(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine")
    given_back(broker, client)
    pop(broker, client, invisible_time=1_000)
    broker.wait(3)
    deleting = DeleteTopicRequest(topic="orders")
    assert broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, deleting).code == ResponseCode.SUCCESS
    assert broker.parts.topics.get("%RETRY%group+orders") is None
    assert [message.body for message in broker.messages(RETRY_TOPIC)] == [b"of the other group"]
    broker.stop()


def popped_by_two(broker: WholeBroker) -> Peer:
    """Let two groups pop a message each, which comes again to the retry topic that they share."""
    client = filled(broker, "of group", topic="a_b")
    broker.send(client, "b", b"of group_a")
    for group, topic in TOPICS.items():
        popped = pop(broker, client, topic=topic, consumer_group=group, invisible_time=1_000)
        assert bodies(popped) == [f"of {group}".encode()]
    broker.wait(3)
    assert len(broker.messages("%RETRY%group_a_b")) == 2
    return client


def test_two_groups_whose_pops_share_a_retry_topic_get_what_each_popped(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = popped_by_two(broker)
    for group, topic in TOPICS.items():
        again = pop(broker, client, topic=topic, consumer_group=group)
        again += pop(broker, client, topic=topic, consumer_group=group)
        assert bodies(again) == [f"of {group}".encode()]
    broker.stop()


@pytest.mark.parametrize("is_there", [False, True], ids=["the group comes later", "the group is there"])
@pytest.mark.parametrize("length", [32_570, 32_600])
def test_a_message_without_room_for_the_name_of_its_group_comes_again_only_to_who_popped_it(
    tmp_path: Path, length: int, is_there: bool
) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine", properties=f"k\x01{'v' * length}\x02")
    if is_there:
        broker.parts.groups.find(OTHER)
    for times in range(3):
        (message,) = pop(broker, client, invisible_time=1_000)
        assert (message.record.body, message.record.reconsume_times) == (b"mine", times)
        broker.wait(3)
    given_back(broker, client)
    header = pulling(consumer_group=OTHER, topic=RETRY_TOPIC, sys_flag=PullFlag.SUBSCRIPTION)
    answer = broker.ask(client, RequestCode.PULL_MESSAGE, header)
    assert [message.body for message in parse_records(answer.body)] == [b"of the other group"]
    assert bodies(pop(broker, client)) == [b"mine"]
    broker.stop()


def test_a_look_at_a_shared_retry_topic_shows_only_what_the_group_popped(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = popped_by_two(broker)
    for group, topic in TOPICS.items():
        peeking = PeekMessageRequest(consumer_group=group, topic=topic, queue_id=-1, max_msg_nums=32)
        answer = broker.ask(client, RequestCode.PEEK_MESSAGE, peeking)
        assert [message.body for message in parse_records(answer.body)] == [f"of {group}".encode()]
    broker.stop()


def test_messages_that_another_group_gave_back_are_not_counted(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "mine")
    given_back(broker, client)
    peeking = PeekMessageRequest(consumer_group="group", topic="orders", queue_id=-1, max_msg_nums=32)
    answer = broker.ask(client, RequestCode.PEEK_MESSAGE, peeking)
    assert [message.body for message in parse_records(answer.body)] == [b"mine"]
    assert answer.ext_fields["restNum"] == "0"
    noticing = NotificationRequest(consumer_group="group", topic="orders", queue_id=-1, poll_time=0, born_time=0)
    assert broker.ask(client, RequestCode.NOTIFICATION, noticing).ext_fields["hasMsg"] == "true"
    assert bodies(pop(broker, client, max_msg_nums=1, invisible_time=1_000)) == [b"mine"]
    assert broker.ask(client, RequestCode.NOTIFICATION, noticing).ext_fields["hasMsg"] == "false"
    broker.wait(3)
    assert broker.ask(client, RequestCode.NOTIFICATION, noticing).ext_fields["hasMsg"] == "true"
    broker.stop()
