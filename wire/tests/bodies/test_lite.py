"""Bodies of lite topics, as the proxy and the broker of Apache RocketMQ 5.5.0 write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wire.bodies.lite import (
    BrokerLiteInfo,
    ClientGroup,
    LiteClientInfo,
    LiteGroupInfo,
    LiteLag,
    LiteSubscriptionChanges,
    LiteTopicInfo,
    OffsetKind,
    ParentTopicInfo,
)
from wire.bodies.tools.statistics import OffsetWrapper, TopicOffset
from wire.errors import BodyError


def test_the_proxy_tells_subscriptions() -> None:
    body = (
        '{"subscriptionSet":[{"action":"COMPLETE_ADD","clientId":"vm@25090@1@j16jhpmc","group":"GX1",'
        '"liteTopicSet":["lite1","lite0"],"topic":"PX1","version":0},'
        '{"action":"COMPLETE_REMOVE","clientId":"c","group":"GX1","topic":"PX1","version":0}]}'
    )
    first, second = LiteSubscriptionChanges.parse(body).subscription_set
    assert (first.action, first.client_id, first.group, first.topic) == (
        "COMPLETE_ADD",
        "vm@25090@1@j16jhpmc",
        "GX1",
        "PX1",
    )
    assert (first.lite_topic_set, first.offset_option) == (("lite1", "lite0"), None)
    assert (second.action, second.lite_topic_set) == ("COMPLETE_REMOVE", ())


def test_an_offset_option_has_a_kind_and_a_value() -> None:
    wish = {"action": 0, "clientId": "c", "group": "g", "topic": "t", "offsetOption": {"type": "TAIL_N", "value": 5}}
    (change,) = LiteSubscriptionChanges.parse(json.dumps({"subscriptionSet": [wish]})).subscription_set
    assert change.action == "PARTIAL_ADD"
    assert change.offset_option is not None
    assert (change.offset_option.type, change.offset_option.value) == (OffsetKind.TAIL_N, 5)


@pytest.mark.parametrize("body", ["", "[]", '{"subscriptionSet":[{}]}', '{"subscriptionSet":[{"action":9}]}'])
def test_a_body_that_is_none_is_refused(body: str) -> None:
    with pytest.raises(BodyError):
        LiteSubscriptionChanges.parse(body)


RECORDED: list[tuple[Any, str]] = [
    (
        BrokerLiteInfo(
            store_type="default",
            max_lmq_num=20000,
            current_lmq_num=8,
            lite_subscription_count=3,
            order_info_count=8,
            cq_table_size=15,
            offset_table_size=8,
            event_map_size=1,
            topic_meta={"P1": 30, "P4": -1},
            group_meta={"P1": ["G1"]},
        ),
        (
            '{"cqTableSize":15,"currentLmqNum":8,"eventMapSize":1,"groupMeta":{"P1":["G1"]},"liteSubscriptionCount":3,'
            '"maxLmqNum":20000,"offsetTableSize":8,"orderInfoCount":8,"storeType":"default","topicMeta":{"P1":30,"P4":-1}}'
        ),
    ),
    (
        ParentTopicInfo(topic="P4", ttl=-1, groups=["G4"], lmq_num=8, lite_topic_count=3),
        '{"groups":["G4"],"liteTopicCount":3,"lmqNum":8,"topic":"P4","ttl":-1}',
    ),
    (
        LiteTopicInfo(
            parent_topic="P4",
            lite_topic="x",
            subscriber=[ClientGroup("cl1", "G1")],
            topic_offset=TopicOffset(0, 4, 1795331227630),
        ),
        (
            '{"liteTopic":"x","parentTopic":"P4","shardingToBroker":true,"subscriber":[{"clientId":"cl1","group":"G1"}],'
            '"topicOffset":{"lastUpdateTimestamp":1795331227630,"maxOffset":4,"minOffset":0}}'
        ),
    ),
    (
        LiteClientInfo(
            parent_topic="P4",
            group="G4",
            client_id="cl1",
            last_access_time=1795331237871,
            last_consume_time=0,
            lite_topic_count=3,
            lite_topic_set=["%LMQ%$P4$z"],
        ),
        (
            '{"clientId":"cl1","group":"G4","lastAccessTime":1795331237871,"lastConsumeTime":0,"liteTopicCount":3,'
            '"liteTopicSet":["%LMQ%$P4$z"],"parentTopic":"P4"}'
        ),
    ),
    (
        LiteGroupInfo(
            group="G4",
            parent_topic="P4",
            earliest_unconsumed_timestamp=-1,
            total_lag_count=3,
            lag_count_top_k=[LiteLag("y", 3, 1795331227582)],
            lag_timestamp_top_k=[],
        ),
        (
            '{"earliestUnconsumedTimestamp":-1,"group":"G4","lagCountTopK":[{"earliestUnconsumedTimestamp":1795331227582,'
            '"lagCount":3,"liteTopic":"y"}],"lagTimestampTopK":[],"parentTopic":"P4","totalLagCount":3}'
        ),
    ),
    (
        LiteGroupInfo(
            group="G4",
            parent_topic="P4",
            lite_topic="x",
            earliest_unconsumed_timestamp=1795331227581,
            total_lag_count=2,
            lite_topic_offset_wrapper=OffsetWrapper(4, 2, 0, 1795331227577),
        ),
        (
            '{"earliestUnconsumedTimestamp":1795331227581,"group":"G4","liteTopic":"x","liteTopicOffsetWrapper":'
            '{"brokerOffset":4,"consumerOffset":2,"lastTimestamp":1795331227577,"pullOffset":0},"parentTopic":"P4",'
            '"totalLagCount":2}'
        ),
    ),
]


@pytest.mark.parametrize(("body", "text"), RECORDED, ids=lambda value: type(value).__name__)
def test_tools_are_told_as_apache_tells_them(body: Any, text: str) -> None:
    assert json.loads(body.build()) == json.loads(text)
