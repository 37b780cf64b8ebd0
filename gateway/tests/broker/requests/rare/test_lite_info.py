"""Answers to tools about lite topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.lite.lite_client import GROUP, PARENT, LiteConsumer, made, send
from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.lite import (
    GetLiteClientInfoRequest,
    GetLiteGroupInfoRequest,
    GetLiteTopicInfoRequest,
    GetParentTopicInfoRequest,
    TriggerLiteDispatchRequest,
)


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    """Two messages in lite topic a, of which the group has consumed one; one, later, in b."""
    broker = WholeBroker(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True)
    made(broker, lite_topic_expiration="60")
    send(broker, "a", "1", "2")
    consumer = LiteConsumer(broker).subscribe("a", "b")
    consumer.ack(*consumer.pop(max_msg_num=1))
    broker.wait(5)
    send(broker, "b", "3")
    return broker


def ask(broker: WholeBroker, code: RequestCode, header: Any = None) -> RemotingCommand:
    return broker.ask(broker.connect(), code, header)


def told(broker: WholeBroker, code: RequestCode, header: Any = None) -> Any:
    answer = ask(broker, code, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return json.loads(answer.body)


def test_a_broker_is_told_in_numbers(broker: WholeBroker) -> None:
    info = told(broker, RequestCode.GET_BROKER_LITE_INFO)
    assert {name: info[name] for name in ("storeType", "maxLmqNum", "currentLmqNum", "liteSubscriptionCount")} == {
        "storeType": "default",
        "maxLmqNum": 20_000,
        "currentLmqNum": 2,
        "liteSubscriptionCount": 2,
    }
    assert (info["topicMeta"], info["groupMeta"]) == ({PARENT: 60}, {PARENT: [GROUP]})
    assert (info["orderInfoCount"], info["eventMapSize"]) == (0, 1)
    assert info["offsetTableSize"] >= 1
    assert info["cqTableSize"] >= 3


def test_a_parent_topic(broker: WholeBroker) -> None:
    assert told(broker, RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfoRequest(topic=PARENT)) == {
        "topic": PARENT,
        "ttl": 60,
        "groups": [GROUP],
        "lmqNum": 2,
        "liteTopicCount": 2,
    }


@pytest.mark.parametrize(
    ("lite_topic", "clients", "offsets"),
    [("a", ["client-1"], (0, 2, START_MS)), ("none", [], (0, 0, 0))],
)
def test_a_lite_topic(broker: WholeBroker, lite_topic: str, clients: list[str], offsets: tuple[int, ...]) -> None:
    header = GetLiteTopicInfoRequest(parent_topic=PARENT, lite_topic=lite_topic)
    info = told(broker, RequestCode.GET_LITE_TOPIC_INFO, header)
    assert info["subscriber"] == [{"clientId": client, "group": GROUP} for client in clients]
    least, end, at_ms = offsets
    assert info["topicOffset"] == {"minOffset": least, "maxOffset": end, "lastUpdateTimestamp": at_ms}


@pytest.mark.parametrize(
    ("client", "most", "count", "queues"),
    [
        ("client-1", 10, 2, ["%LMQ%$parent$a", "%LMQ%$parent$b"]),
        ("client-1", 1, 2, ["%LMQ%$parent$a"]),
        ("nobody", 10, -1, None),
    ],
)
def test_a_client(broker: WholeBroker, client: str, most: int, count: int, queues: list[str] | None) -> None:
    header = GetLiteClientInfoRequest(parent_topic=PARENT, group=GROUP, client_id=client, max_count=most)
    info = told(broker, RequestCode.GET_LITE_CLIENT_INFO, header)
    assert (info["liteTopicCount"], info.get("liteTopicSet")) == (count, queues)
    assert (info["lastAccessTime"], info["lastConsumeTime"]) == ((START_MS, START_MS) if queues else (-1, 0))


def test_a_client_of_a_wildcard_group_has_what_there_is(broker: WholeBroker) -> None:
    made(broker, group="all", attributes={"lite.sub.wildcard": "true"})
    LiteConsumer(broker, "client-2", "all").tell("COMPLETE_ADD")
    header = GetLiteClientInfoRequest(parent_topic=PARENT, group="all", client_id="client-2", max_count=10)
    assert told(broker, RequestCode.GET_LITE_CLIENT_INFO, header)["liteTopicCount"] == 2


def test_how_far_a_group_is_behind(broker: WholeBroker) -> None:
    send(broker, "b", "4")
    send(broker, "of_others", "5")
    info = told(broker, RequestCode.GET_LITE_GROUP_INFO, GetLiteGroupInfoRequest(group=GROUP, top_k=1))
    assert (info["parentTopic"], info["totalLagCount"]) == (PARENT, 3)
    assert info["lagCountTopK"] == [{"liteTopic": "b", "lagCount": 2, "earliestUnconsumedTimestamp": START_MS + 5_000}]
    assert info["lagTimestampTopK"] == [{"liteTopic": "a", "lagCount": 1, "earliestUnconsumedTimestamp": START_MS}]
    assert info["earliestUnconsumedTimestamp"] == START_MS


def test_how_far_a_group_is_behind_in_one_lite_topic(broker: WholeBroker) -> None:
    header = GetLiteGroupInfoRequest(group=GROUP, lite_topic="a", top_k=1)
    info = told(broker, RequestCode.GET_LITE_GROUP_INFO, header)
    assert (info["totalLagCount"], info["earliestUnconsumedTimestamp"]) == (1, START_MS)
    assert info["liteTopicOffsetWrapper"] == {
        "brokerOffset": 2,
        "consumerOffset": 1,
        "pullOffset": 0,
        "lastTimestamp": START_MS,
    }
    none = told(broker, RequestCode.GET_LITE_GROUP_INFO, GetLiteGroupInfoRequest(group=GROUP, lite_topic="x", top_k=1))
    assert (none["totalLagCount"], "liteTopicOffsetWrapper" in none) == (-1, False)


def test_lite_topics_are_offered_once_more(broker: WholeBroker) -> None:
    (client,) = broker.parts.lite.subscriptions
    client.ready.clear()
    consumer = LiteConsumer(broker)
    consumer.wait()
    for header in (TriggerLiteDispatchRequest(group=GROUP, client_id="other"), TriggerLiteDispatchRequest(group=GROUP)):
        assert consumer.peer.received() == []
        assert ask(broker, RequestCode.TRIGGER_LITE_DISPATCH, header).code == ResponseCode.SUCCESS
    assert [message.text for message in consumer.woken()] == ["2", "3"]


@pytest.mark.parametrize(
    ("code", "header", "refusal"),
    [
        (RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfoRequest(topic="none"), ResponseCode.TOPIC_NOT_EXIST),
        (RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfoRequest(), ResponseCode.TOPIC_NOT_EXIST),
        (RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfoRequest(topic="orders"), ResponseCode.INVALID_PARAMETER),
        (
            RequestCode.GET_LITE_TOPIC_INFO,
            GetLiteTopicInfoRequest(parent_topic="orders", lite_topic="a"),
            ResponseCode.INVALID_PARAMETER,
        ),
        (
            RequestCode.GET_LITE_CLIENT_INFO,
            GetLiteClientInfoRequest(parent_topic=PARENT, group="none", client_id="c", max_count=1),
            ResponseCode.INVALID_PARAMETER,
        ),
        (
            RequestCode.GET_LITE_CLIENT_INFO,
            GetLiteClientInfoRequest(parent_topic=PARENT, group=GROUP, client_id="c"),
            ResponseCode.INVALID_PARAMETER,
        ),
        (
            RequestCode.GET_LITE_GROUP_INFO,
            GetLiteGroupInfoRequest(group="none", top_k=1),
            ResponseCode.INVALID_PARAMETER,
        ),
        (RequestCode.GET_LITE_GROUP_INFO, GetLiteGroupInfoRequest(group=GROUP), ResponseCode.INVALID_PARAMETER),
        (RequestCode.TRIGGER_LITE_DISPATCH, TriggerLiteDispatchRequest(group="none"), ResponseCode.INVALID_PARAMETER),
        (RequestCode.TRIGGER_LITE_DISPATCH, TriggerLiteDispatchRequest(), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_what_is_none_is_refused(broker: WholeBroker, code: RequestCode, header: Any, refusal: ResponseCode) -> None:
    broker.send(broker.connect())
    assert ask(broker, code, header).code == refusal
