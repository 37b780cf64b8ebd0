"""Counts under the names that tools ask by."""

from __future__ import annotations

from gateway.tests.broker.whole_broker import WholeBroker, pulling
from wire.bodies.statistics import BrokerStatsData
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import ViewBrokerStatsDataRequest


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


def test_what_was_never_counted_does_not_exist(broker: WholeBroker) -> None:
    for name, key in (
        ("TOPIC_PUT_NUMS", "none"),
        ("GROUP_GET_NUMS", "orders@none"),
        ("GROUP_GET_NUMS", "orders"),
        ("BROKER_GET_NUMS", "none"),
        ("BROKER_GET_NUMS", "DefaultCluster"),
        ("SOMETHING", "orders"),
    ):
        assert view(broker, name, key) is None
