"""The progress of groups, their subscriptions, and what they may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling
from wire.bodies.message_queue import MessageQueue
from wire.bodies.subscriptions import GroupForbidden, QuerySubscriptionAnswer, SubscriptionGroupTable
from wire.bodies.tools.statistics import ConsumeStatsList, ConsumeTimeSpans, QueueTimeSpan
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import GetConsumeStatsInBrokerRequest
from wire.headers.groups import UpdateGroupForbiddenRequest
from wire.headers.topics import QueryConsumeTimeSpanRequest, QuerySubscriptionByConsumerRequest


def spans(broker: WholeBroker) -> dict[int, QueueTimeSpan]:
    header = QueryConsumeTimeSpanRequest(topic="orders", group="group")
    answer = broker.ask(broker.connect(), RequestCode.QUERY_CONSUME_TIME_SPAN, header)
    assert answer.code == ResponseCode.SUCCESS
    return {span.message_queue.queue_id: span for span in ConsumeTimeSpans.parse(answer.body).spans}


def test_the_times_of_the_messages_and_of_the_last_consumed_one_are_told(broker: WholeBroker) -> None:
    broker.parts.offsets.commit("group", "orders", 0, 1)
    broker.parts.offsets.commit("group", "orders", 1, 2)
    now_ms, found = broker.clock(), spans(broker)
    first = found[0]
    assert first.message_queue == MessageQueue("orders", "broker-a", 0)
    assert (first.min_time, first.max_time, first.consume_time) == (START_MS, START_MS + 2_000, START_MS)
    assert first.delay_time == now_ms - (START_MS + 2_000)
    assert (found[1].consume_time, found[1].delay_time) == (START_MS + 3_000, 0)
    text = first.max_time_text or ""
    assert (len(text), text[10], text[-4:]) == (len("yyyy-MM-dd#HH:mm:ss:SSS"), "#", ":000")


def test_a_new_group_is_behind_the_first_message(broker: WholeBroker) -> None:
    assert spans(broker)[0].delay_time == broker.clock() - START_MS
    header = QueryConsumeTimeSpanRequest(topic="none", group="group")
    refused = broker.ask(broker.connect(), RequestCode.QUERY_CONSUME_TIME_SPAN, header)
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST


def all_groups(broker: WholeBroker, is_order: bool = False) -> ConsumeStatsList:
    header = GetConsumeStatsInBrokerRequest(is_order=is_order)
    return ConsumeStatsList.parse(broker.ask(broker.connect(), RequestCode.GET_BROKER_CONSUME_STATS, header).body)


def test_every_group_is_shown_with_what_it_is_behind(broker: WholeBroker) -> None:
    broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, pulling(0))
    broker.parts.offsets.commit("group", "orders", 0, 1)
    broker.parts.offsets.commit("group", "gone", 0, 1)
    found = all_groups(broker)
    assert (found.broker_addr, found.total_diff, found.total_inflight_diff) == ("10.0.0.1:10911", 3, 0)
    (stats,) = [entry["group"] for entry in found.consume_stats_list if "group" in entry]
    table = {queue.queue_id: wrapper for queue, wrapper in stats[0].offset_table.items()}
    assert (table[0].broker_offset, table[0].consumer_offset, table[0].last_timestamp) == (2, 1, START_MS)
    assert (table[1].consumer_offset, table[1].last_timestamp) == (0, 0)
    assert all_groups(broker, is_order=True).consume_stats_list == ()


def test_topics_that_an_online_group_does_not_subscribe_are_left_out(broker: WholeBroker) -> None:
    broker.parts.offsets.commit("group", "orders", 0, 1)
    broker.subscribe(broker.connect(), topic="other")
    assert all_groups(broker).total_diff == 0


def test_the_subscription_of_an_online_group_is_told(broker: WholeBroker) -> None:
    header = QuerySubscriptionByConsumerRequest(group="group", topic="orders")
    asked = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    assert QuerySubscriptionAnswer.parse(broker.ask(broker.connect(), asked, header).body).subscription is None
    broker.subscribe(broker.connect(), expression="red")
    found = QuerySubscriptionAnswer.parse(broker.ask(broker.connect(), asked, header).body)
    assert (found.group, found.topic) == ("group", "orders")
    assert found.subscription is not None
    assert found.subscription.tags_set == {"red"}


def forbid(broker: WholeBroker, readable: bool | None, **changed: Any) -> GroupForbidden:
    header = UpdateGroupForbiddenRequest(**{"group": "group", "topic": "orders", "readable": readable, **changed})
    answer = broker.ask(broker.connect(), RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return GroupForbidden.parse(answer.body)


def test_a_group_that_is_forbidden_a_topic_cannot_pull_it_also_after_a_restart(broker: WholeBroker) -> None:
    assert forbid(broker, None) == GroupForbidden("group", "orders", readable=True)
    assert broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, pulling(0)).code == ResponseCode.SUCCESS
    assert forbid(broker, False).readable is False
    table = SubscriptionGroupTable.parse(
        broker.ask(broker.connect(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body
    )
    assert table.forbidden_table == {"group": {"orders": 4}}
    again = broker.restart()
    assert again.ask(again.connect(), RequestCode.PULL_MESSAGE, pulling(0)).code == ResponseCode.NO_PERMISSION
    assert forbid(again, True).readable is True
    assert again.ask(again.connect(), RequestCode.PULL_MESSAGE, pulling(0)).code == ResponseCode.SUCCESS
    again.stop()


def test_only_topics_that_exist_can_be_forbidden(broker: WholeBroker) -> None:
    header = UpdateGroupForbiddenRequest(group="group", topic="none", readable=False)
    answer = broker.ask(broker.connect(), RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("made", [True, False])
def test_only_a_group_that_exists_is_forbidden_a_topic(tmp_path: Path, made: bool) -> None:
    broker = WholeBroker(tmp_path / "store", auto_create_subscription_group=made)
    broker.parts.topics.put(TopicConfig("orders"))
    header = UpdateGroupForbiddenRequest(group="nobody", topic="orders", readable=False)
    answer = broker.ask(broker.connect(), RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    assert answer.code == (ResponseCode.SUCCESS if made else ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    assert (broker.parts.groups.get("nobody") is not None) is made
    assert broker.parts.groups.may_read("nobody", "orders") is not made
