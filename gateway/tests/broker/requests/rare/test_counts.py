"""Counts under the names that tools ask by."""

from __future__ import annotations

from collections.abc import Callable

from gateway.tests.broker.whole_broker import WholeBroker, pulling, sending
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.tools.statistics import BrokerStatsData
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import ViewBrokerStatsDataRequest
from wire.headers.send import ConsumerSendMsgBackRequest


def view(broker: WholeBroker, name: str, key: str) -> BrokerStatsData | None:
    header = ViewBrokerStatsDataRequest(stats_name=name, stats_key=key)
    answer = broker.ask(broker.connect(), RequestCode.VIEW_BROKER_STATS_DATA, header)
    if answer.code != ResponseCode.SUCCESS:
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return None
    return BrokerStatsData.parse(answer.body)


def test_messages_and_bytes_are_counted_by_topic_and_by_group(broker: WholeBroker) -> None:
    broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, pulling(0))
    stored = view(broker, "TOPIC_PUT_NUMS", "orders")
    assert stored is not None
    assert (stored.stats_minute.sum, stored.stats_minute.tps, stored.stats_minute.avgpt) == (4, 0.4, 1.0)
    assert stored.stats_minute == stored.stats_hour == stored.stats_day
    sizes = view(broker, "TOPIC_PUT_SIZE", "orders")
    assert sizes is not None
    assert sizes.stats_day.sum == broker.parts.store.max_commit_log_offset
    given = view(broker, "GROUP_GET_NUMS", "orders@group")
    assert given is not None
    assert (given.stats_day.sum, given.stats_day.avgpt) == (2, 2.0)
    whole = view(broker, "BROKER_PUT_NUMS", "DefaultCluster")
    assert whole is not None
    assert whole.stats_day.sum == 4


def test_point_10_messages_sent_back_and_those_of_system_topics_are_counted(broker: WholeBroker) -> None:
    first = broker.messages("orders")[0]
    header = ConsumerSendMsgBackRequest(offset=first.commit_log_offset, group="group", delay_level=1)
    client = broker.connect()
    broker.parts.groups.put(SubscriptionGroupConfig("group"))
    assert broker.ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, header).code == ResponseCode.SUCCESS
    back = view(broker, "SNDBCK_PUT_NUMS", "orders@group")
    assert back is not None
    assert (back.stats_day.sum, back.stats_day.avgpt) == (1, 1.0)
    whole, without = (
        view(broker, name, "DefaultCluster") for name in ("BROKER_PUT_NUMS", "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC")
    )
    assert whole is not None
    assert without is not None
    assert (whole.stats_day.sum, without.stats_day.sum) == (5, 4)


def test_point_10_latencies_are_milliseconds_of_all_queues(broker: WholeBroker) -> None:
    broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, pulling(0))
    broker.parts.flows.waited("orders", "group", 30)
    waiting: list[Callable[[], None]] = []
    broker.in_log_thread = lambda work, done: waiting.append(lambda: done(work()))
    assert broker.ask_all(broker.connect(), RequestCode.SEND_MESSAGE, sending(), b"slow") == []
    broker.wait(2)
    for go_on in waiting:
        go_on()
    broker.turn()
    put, got = view(broker, "TOPIC_PUT_LATENCY", "0@orders"), view(broker, "GROUP_GET_LATENCY", "0@orders@group")
    assert put is not None
    assert got is not None
    assert (put.stats_day.sum, put.stats_day.avgpt) == (2_000, 400.0)
    assert (got.stats_day.sum, got.stats_day.avgpt) == (30, 30.0)
    assert broker.parts.traffic.longest_put_ms == 2_000


def test_what_was_never_counted_does_not_exist(broker: WholeBroker) -> None:
    for name, key in (
        ("TOPIC_PUT_NUMS", "none"),
        ("GROUP_GET_NUMS", "orders@none"),
        ("GROUP_GET_NUMS", "orders"),
        ("BROKER_GET_NUMS", "none"),
        ("BROKER_GET_NUMS", "DefaultCluster"),
        ("SNDBCK_PUT_NUMS", "orders@group"),
        ("TOPIC_PUT_LATENCY", "orders"),
        ("GROUP_GET_LATENCY", "0@orders@none"),
        ("SOMETHING", "orders"),
    ):
        assert view(broker, name, key) is None
