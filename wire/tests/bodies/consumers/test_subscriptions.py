from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.subscriptions import (
    GroupForbidden,
    QuerySubscriptionAnswer,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from wire.bodies.topics import DataVersion
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, data_versions, int32s, longs, texts
from wire.tests.message.strategies import QUICK

subscriptions = st.builds(
    SubscriptionData, texts, texts, st.frozensets(texts), st.frozensets(int32s), longs, texts, st.booleans()
)
groups = st.builds(
    SubscriptionGroupConfig,
    group_name=texts,
    consume_enable=st.booleans(),
    retry_queue_nums=int32s,
    retry_max_times=int32s,
    broker_id=longs,
    attributes=st.dictionaries(texts, texts, max_size=2),
    subscription_data_set=st.none() | st.just(({"topic": "t", "version": 1},)),
)


@QUICK
@given(subscriptions)
def test_subscriptions_come_back(subscription: SubscriptionData) -> None:
    assert_comes_back(subscription)


def test_a_subscription_of_a_java_client_is_read() -> None:
    text = (
        '{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG",'
        '"subString":"TagA || TagB","subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"t"}'
    )
    assert SubscriptionData.parse(text) == SubscriptionData(
        "t", "TagA || TagB", frozenset({"TagA", "TagB"}), frozenset({2598919, 2598920}), 1_700_000_000_000
    )


def test_a_new_group_is_written_with_upstreams_defaults() -> None:
    assert SubscriptionGroupConfig("g").build() == (
        b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g",'
        b'"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,'
        b'"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
    )


def test_a_group_of_4_9_has_the_defaults_of_5_x_for_what_it_lacks() -> None:
    text = (
        '{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,"consumeFromMinEnable":true,'
        '"groupName":"g","notifyConsumerIdsChangedEnable":true,"retryMaxTimes":3,"retryQueueNums":1,'
        '"whichBrokerWhenConsumeSlowly":1}'
    )
    assert SubscriptionGroupConfig.parse(text) == SubscriptionGroupConfig("g", consume_enable=False, retry_max_times=3)


def test_members_of_later_versions_survive() -> None:
    group = SubscriptionGroupConfig.parse('{"groupName":"g","laterMember":{"a":[1]}}')
    assert group.extra == {"laterMember": {"a": [1]}}
    assert_comes_back(group)


@QUICK
@given(groups, data_versions)
def test_tables_and_lists_of_groups_come_back(group: SubscriptionGroupConfig, version: DataVersion) -> None:
    assert_comes_back(group)
    assert_comes_back(SubscriptionGroupTable({group.group_name: group}, version, {"g": {"t": 1}}))
    assert_comes_back(SubscriptionGroupList((group,)))


def test_a_group_without_a_name_is_refused() -> None:
    with pytest.raises(BodyError, match="groupName is missing"):
        SubscriptionGroupConfig.parse("{}")


def test_the_answer_about_one_subscription_comes_back() -> None:
    assert_comes_back(QuerySubscriptionAnswer("g", "t", SubscriptionData("t")))
    assert QuerySubscriptionAnswer("g", "t").build() == b'{"group":"g","topic":"t"}'


def test_whether_a_group_may_read_a_topic_is_said_as_a_java_broker_says_it() -> None:
    assert GroupForbidden("g", "t", readable=False).build() == b'{"group":"g","readable":false,"topic":"t"}'
    assert_comes_back(GroupForbidden("g", "t"))
