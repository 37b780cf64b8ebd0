"""Whatever makes a topic or gives it more queues is refused when the queues of all topics reach the limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.tests.broker.popping import POP, popping
from gateway.tests.broker.whole_broker import WholeBroker, sending
from gateway.tests.membership.subscriptions import subscription
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.topics import CreateTopicList, TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.headers.topics import CreateTopicRequest

LIMIT = 1_000


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    """A broker with a message, and with as many queues as it may have."""
    broker = WholeBroker(tmp_path / "store", queues_limit=LIMIT)
    topics = broker.parts.topics
    topics.put_all([TopicConfig("orders", 4, 4, 6), TopicConfig("%RETRY%clients", 1, 1, 6)])
    broker.parts.groups.find("group")
    broker.parts.groups.find("clients")
    broker.send(broker.connect())
    topics.put_all([TopicConfig(f"full{number}", 1, 1, 6) for number in range(LIMIT - 5)])
    return broker


def created(broker: WholeBroker, topic: str, queues: int) -> RemotingCommand:
    header = CreateTopicRequest(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    return broker.ask(broker.connect(), RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def listed(broker: WholeBroker) -> RemotingCommand:
    body = CreateTopicList((TopicConfig("full9", 1, 1, 4), TopicConfig("new", 1, 1, 6))).build()
    return broker.ask(broker.connect(), RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)


def heartbeat(broker: WholeBroker) -> RemotingCommand:
    data = HeartbeatData("c", consumers=(ConsumerData("group", subscriptions=(subscription("orders"),)),))
    return broker.ask_all(broker.connect(), RequestCode.HEART_BEAT, body=data.build())[0]


def sent_back(broker: WholeBroker, delay_level: int) -> RemotingCommand:
    (record,) = broker.messages("orders")
    header = ConsumerSendMsgBackRequest(offset=record.commit_log_offset, group="group", delay_level=delay_level)
    return broker.ask(broker.connect(), RequestCode.CONSUMER_SEND_MSG_BACK, header)


def sent_for_the_last_time(broker: WholeBroker) -> RemotingCommand:
    header = sending("%RETRY%clients", reconsume_times=20, max_reconsume_times=1)
    return broker.ask(broker.connect(), RequestCode.SEND_MESSAGE, header, b"again")


WAYS: dict[str, Callable[[WholeBroker], RemotingCommand]] = {
    "a new topic": lambda broker: created(broker, "new", 1),
    "more queues of a topic": lambda broker: created(broker, "orders", 5),
    "a list": listed,
    "a send": lambda broker: broker.send(broker.connect(), "new"),
    "a send to a retry topic": lambda broker: broker.send(broker.connect(), "%RETRY%group"),
    "a send to a retry topic for the last time": sent_for_the_last_time,
    "a message that is sent back": lambda broker: sent_back(broker, 3),
    "a message that becomes a dead letter": lambda broker: sent_back(broker, -1),
    "a consumer with a new group": heartbeat,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_request_makes_queues_beyond_the_limit(broker: WholeBroker, way: str) -> None:
    before = dict(broker.parts.topics.table())
    answer = WAYS[way](broker)
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert f"have {LIMIT} queues" in str(answer.remark)
    assert f"the limit is {LIMIT} (gateway.queuesLimit)" in str(answer.remark)
    assert broker.parts.topics.table() == before


@pytest.mark.parametrize("way", WAYS)
def test_the_same_requests_pass_when_there_is_room(broker: WholeBroker, way: str) -> None:
    for number in range(4):
        broker.parts.topics.delete(f"full{number}")
    assert WAYS[way](broker).code == ResponseCode.SUCCESS


def test_a_popped_message_waits_until_there_is_room_for_its_retry_topic(broker: WholeBroker) -> None:
    client = broker.connect()
    assert broker.ask(client, POP, popping(invisible_time=1_000)).code == ResponseCode.SUCCESS
    broker.wait(20)
    assert not broker.messages("%RETRY%group_orders")
    broker.parts.topics.delete("full0")
    broker.wait(60)
    (again,) = broker.messages("%RETRY%group_orders")
    assert again.body == b"hello"
