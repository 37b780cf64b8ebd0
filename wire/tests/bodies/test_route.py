from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.route import (
    MASTER_ID,
    MAX_ROUTE_ADDRESSES,
    MAX_ROUTE_QUEUES,
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    QueueData,
    TopicRouteData,
    ordered_queues,
)
from wire.bodies.topics import MAX_QUEUES, TopicQueueMapping
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, int32s, longs, texts
from wire.tests.message.strategies import QUICK

ROUTE = TopicRouteData(
    queue_datas=(QueueData("broker-é", 8, 4, 6),),
    broker_datas=(BrokerData("DefaultCluster", "broker-é", {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}),),
    order_topic_conf="broker-é:4",
)

counts = st.integers(-(2**31), MAX_QUEUES)
queues = st.builds(QueueData, texts, counts, counts, int32s, int32s)
brokers = st.builds(
    BrokerData, texts, texts, st.dictionaries(longs, texts, max_size=3), st.booleans(), st.none() | texts
)
routes = st.builds(
    TopicRouteData,
    st.lists(queues, max_size=3).map(tuple),
    st.lists(brokers, max_size=3).map(tuple),
    st.none() | texts,
    st.dictionaries(texts, st.lists(texts, max_size=2).map(tuple), max_size=2),
    st.none() | st.just({"b": TopicQueueMapping("t", "b")}),
)


def test_the_plain_form_has_bare_broker_ids() -> None:
    assert (
        ROUTE.build(standard=False)
        == (
            '{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},"brokerName":"broker-é",'
            '"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
            '"orderTopicConf":"broker-é:4","queueDatas":[{"brokerName":"broker-é","perm":6,"readQueueNums":8,'
            '"topicSysFlag":0,"writeQueueNums":4}]}'
        ).encode()
    )


def test_the_standard_form_is_json_in_ascii() -> None:
    raw = ROUTE.build(standard=True)
    assert raw.isascii()
    assert json.loads(raw)["brokerDatas"][0]["brokerAddrs"] == {
        "0": "127.0.0.1:10911",
        "1": "127.0.0.1:10921",
    }
    assert MASTER_ID == 0


@QUICK
@given(routes)
def test_routes_come_back_in_both_forms(route: TopicRouteData) -> None:
    assert TopicRouteData.parse(route.build(standard=True)) == route
    assert TopicRouteData.parse(route.build(standard=False)) == route


@QUICK
@given(brokers)
def test_cluster_tables_come_back(broker: BrokerData) -> None:
    assert_comes_back(ClusterInfo({broker.broker_name: broker}, {broker.cluster: (broker.broker_name,)}))


def test_a_route_of_4_9_is_read() -> None:
    route = TopicRouteData.parse(
        '{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"c"}],"filterServerTable":{},'
        '"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert route == TopicRouteData((QueueData("b", 4, 4, 6),), (BrokerData("c", "b", {0: "a:1"}),))


def test_members_of_a_broker_name_are_within_an_object() -> None:
    group = BrokerMemberGroup("c", "b", {0: "a:1"})
    assert group.build() == b'{"brokerMemberGroup":{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"c"}}'


@pytest.mark.parametrize(
    "text",
    [
        '{"queueDatas":[{}]}',
        '{"brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":{"x":"a:1"}}]}',
        "[]",
    ],
)
def test_a_damaged_route_is_refused(text: str) -> None:
    with pytest.raises(BodyError):
        TopicRouteData.parse(text)


def route_text(*queues: tuple[int, int], order: str = "") -> str:
    data = TopicRouteData(
        [QueueData(f"b{number}", read, write, 6) for number, (read, write) in enumerate(queues)],
        order_topic_conf=order or None,
    )
    return data.build(standard=True).decode()


@pytest.mark.parametrize("count", [MAX_QUEUES + 1, 100_000, 2**31 - 1, 2**63 - 1])
def test_a_count_of_queues_that_no_topic_has_is_refused(count: int) -> None:
    for queues in ((count, 4), (4, count)):
        with pytest.raises(BodyError, match=f"{count}.*{MAX_QUEUES}"):
            TopicRouteData.parse(route_text(queues))
    for order in (f"b0:{count}", f"b0:4;b0:{count}"):
        with pytest.raises(BodyError, match=f"{count}.*{MAX_QUEUES}"):
            TopicRouteData.parse(route_text((4, 4), order=order))


def test_the_queues_of_all_brokers_together_have_a_limit() -> None:
    most = [(MAX_QUEUES, MAX_QUEUES)] * (MAX_ROUTE_QUEUES // MAX_QUEUES)
    assert len(TopicRouteData.parse(route_text(*most)).queue_datas) == len(most)
    for more in ((0, 1), (1, 0)):
        with pytest.raises(BodyError, match=str(MAX_ROUTE_QUEUES)):
            TopicRouteData.parse(route_text(*most, more))
    order = ";".join(f"b:{MAX_QUEUES}" for _ in range(5))
    with pytest.raises(BodyError, match=str(MAX_ROUTE_QUEUES)):
        TopicRouteData.parse(route_text((4, 4), order=order))


def test_the_addresses_of_all_brokers_together_have_a_limit() -> None:
    for count, each in ((MAX_ROUTE_ADDRESSES, 1), (2, MAX_ROUTE_ADDRESSES // 2)):
        brokers = [BrokerData("c", f"b{n}", dict.fromkeys(range(each), "a:1")) for n in range(count)]
        text = TopicRouteData((), brokers).build(standard=True)
        assert len(TopicRouteData.parse(text).broker_datas) == count
        more = TopicRouteData((), [*brokers, BrokerData("c", "more", {0: "a:1"})]).build(standard=True)
        with pytest.raises(BodyError, match=f"10001 addresses.*{MAX_ROUTE_ADDRESSES}"):
            TopicRouteData.parse(more)


def test_a_count_below_nothing_is_no_queue_and_a_thousand_digits_are_no_number() -> None:
    assert TopicRouteData.parse(route_text((-5, 4))).queue_datas[0].read_queue_nums == -5
    assert ordered_queues("a:2;b:1;odd;c:x;:3;d:-4;") == [("a", 2), ("b", 1)]
    with pytest.raises(BodyError, match=str(MAX_QUEUES)):
        ordered_queues("a:" + "9" * 5_000)
