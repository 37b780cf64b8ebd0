"""Routes and offsets, over connections that are functions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gateway.client.connect.credentials import Credentials
from gateway.client.errors import (
    BrokerError,
    BrokerNotFound,
    ConfigurationError,
    ConnectError,
    ConnectionLost,
    ProtocolError,
)
from gateway.spark.asking import cluster as module
from gateway.spark.asking.cluster import Access, Cluster, cluster_for
from gateway.spark.options import read_options
from gateway.spark.reading.planning import batch_ranges, split
from gateway.tests.spark.messages import record
from gateway.tests.spark.pretend_cluster import pull_answer, queue
from wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from wire.bodies.tools.statistics import KVTable
from wire.bodies.topics import TopicList
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.headers.offsets import (
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetResponse,
    GetMinOffsetResponse,
    SearchOffsetResponse,
)

BROKER_AT = "10.0.0.7:10911"
ROUTE = TopicRouteData(
    queue_datas=[QueueData("broker-a", 2, 2, 6)],
    broker_datas=[BrokerData("c", "broker-a", {0: BROKER_AT, 1: "slave:1"})],
)
Reply = Callable[[RemotingCommand], RemotingCommand]


def success(fields: Any = None, body: bytes = b"") -> Reply:
    return lambda _: RemotingCommand(ResponseCode.SUCCESS, flag=1, ext_fields=fields, body=body)


class Network:
    """A network: the connections that are made, and the answer to each code."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.asked: list[tuple[str, RemotingCommand]] = []
        self.failures: list[Exception] = []
        self.replies: dict[int, Reply] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: success(body=ROUTE.build(standard=True)),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: success(body=TopicList(["b", "a"]).build()),
            RequestCode.GET_MIN_OFFSET: success(build_header(GetMinOffsetResponse(offset=3))),
            RequestCode.GET_EARLIEST_MSG_STORETIME: success(
                build_header(GetEarliestMsgStoretimeResponse(timestamp=1_750_000_000_000))
            ),
            RequestCode.GET_MAX_OFFSET: success(build_header(GetMaxOffsetResponse(offset=9))),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: success(build_header(SearchOffsetResponse(offset=5))),
            RequestCode.UPDATE_CONSUMER_OFFSET: success(),
            RequestCode.GET_BROKER_RUNTIME_INFO: success(body=KVTable({"storeId": "s1"}).build()),
        }

    def connect(self, address: str, **how: Any) -> Any:
        self.opened.append(address)
        if address.startswith("down"):
            raise ConnectError(address, "refused", advertised_by=how["advertised_by"])
        return Link(self, address)


class Link:
    """A connection."""

    def __init__(self, network: Network, address: str) -> None:
        self.network, self.address, self.is_open, self.used_at = network, address, True, time.monotonic()

    def call(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        self.network.asked.append((self.address, command))
        if self.network.failures:
            self.is_open = False
            raise self.network.failures.pop()
        return self.network.replies[command.code](command)

    def call_all(self, commands: list[RemotingCommand], timeout_s: float) -> list[RemotingCommand]:
        return [self.call(command, timeout_s) for command in commands]

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def network() -> Network:
    """A name server and a broker."""
    return Network()


def a_cluster(network: Network, *name_servers: str, **given: Any) -> Cluster:
    access = Access(name_servers=name_servers or ("ns:9876",), retry_s=0.0, **given)
    return Cluster(access, connect=network.connect)


def test_queues_come_from_the_route_and_questions_go_to_the_master(network: Network) -> None:
    cluster = a_cluster(network)
    assert cluster.queues("orders") == (queue(0), queue(1))
    assert cluster.begins([queue(0), queue(1)]) == {queue(0): 3, queue(1): 3}
    assert cluster.ends([queue(0)]) == {queue(0): 9}
    assert cluster.at_time([queue(1)], {queue(1): 77}) == {queue(1): 5}
    assert network.opened == ["ns:9876", BROKER_AT]
    fields = [command.ext_fields for _, command in network.asked[1:]]
    assert fields[2]["committed"] == "true"
    assert cluster.first_stored([queue(1)]) == {queue(1): 1_750_000_000_000}
    assert (fields[3]["timestamp"], fields[3]["boundaryType"]) == ("77", "LOWER")


def test_planning_fifty_million_messages_asks_for_the_ends_of_their_queues_and_nothing_else(network: Network) -> None:
    route = TopicRouteData(queue_datas=[QueueData("broker-a", 200, 200, 6)], broker_datas=ROUTE.broker_datas)
    network.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = success(body=route.build(standard=True))
    network.replies[RequestCode.GET_MIN_OFFSET] = success(build_header(GetMinOffsetResponse(offset=0)))
    network.replies[RequestCode.GET_MAX_OFFSET] = success(build_header(GetMaxOffsetResponse(offset=250_000)))
    ranges = batch_ranges(
        a_cluster(network), read_options({"nameServer": "a:1", "subscribe": "orders"}, is_stream=False)
    )
    pieces = split(ranges, min_partitions=1000, max_records=None)
    assert (len(ranges), len(pieces)) == (200, 1000)
    assert sum(piece.end - piece.start for piece in pieces) == 50_000_000
    asked = Counter(command.code for _, command in network.asked)
    routes = asked.pop(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert routes <= 2
    assert asked.pop(RequestCode.GET_BROKER_RUNTIME_INFO) == 1
    assert asked == {RequestCode.GET_MIN_OFFSET: 200, RequestCode.GET_MAX_OFFSET: 200}


def test_a_topic_nobody_knows_has_no_queues(network: Network) -> None:
    network.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: RemotingCommand(
        ResponseCode.TOPIC_NOT_EXIST, flag=1
    )
    cluster = a_cluster(network)
    assert cluster.queues("orders") is None
    with pytest.raises(BrokerNotFound):
        cluster.broker("broker-a", "orders")


def test_topics_are_sorted(network: Network) -> None:
    assert a_cluster(network).topics() == ("a", "b")


def test_the_next_name_server_is_asked_when_one_is_down(network: Network) -> None:
    assert a_cluster(network, "down:9876", "ns:9876").topics() == ("a", "b")


def test_no_name_server_is_an_error_that_names_it(network: Network) -> None:
    with pytest.raises(ConnectError, match="down:9876"):
        a_cluster(network, "down:9876").topics()
    assert network.opened == ["down:9876"] * 3


def test_a_question_is_asked_again_on_a_new_connection(network: Network) -> None:
    cluster = a_cluster(network)
    cluster.queues("orders")
    network.failures.append(ConnectionLost(BROKER_AT, "reset"))
    assert cluster.ends([queue(0)]) == {queue(0): 9}
    assert network.opened.count(BROKER_AT) == 2


def test_a_broker_that_is_down_is_an_error_that_says_who_gave_its_address(network: Network) -> None:
    route = TopicRouteData(queue_datas=ROUTE.queue_datas, broker_datas=[BrokerData("c", "broker-a", {0: "down:1"})])
    network.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = success(body=route.build(standard=True))
    with pytest.raises(ConnectError, match="gave this address for broker 'broker-a'"):
        a_cluster(network).ends([queue(0)])


def test_a_refusal_is_told_in_the_broker_s_words(network: Network) -> None:
    network.replies[RequestCode.GET_MAX_OFFSET] = lambda _: RemotingCommand(16, flag=1, remark="no reading here")
    with pytest.raises(BrokerError, match="no reading here"):
        a_cluster(network).ends([queue(0)])


def test_an_answer_that_is_no_route_is_an_error(network: Network) -> None:
    network.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = success(body=b"<html>")
    with pytest.raises(ProtocolError, match="ns:9876"):
        a_cluster(network).queues("orders")


def test_a_route_with_more_queues_than_a_topic_may_have_is_an_error(network: Network) -> None:
    vast = TopicRouteData([QueueData("broker-a", 2**31 - 1, 2, 6)], ROUTE.broker_datas)
    network.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = success(body=vast.build(standard=True))
    with pytest.raises(ProtocolError, match=r"ns:9876.*broker-a.*readQueueNums is 2147483647, the limit is 65536"):
        a_cluster(network).queues("orders")


def test_addresses_may_be_mapped(network: Network) -> None:
    a_cluster(network, address_map=((BROKER_AT, "localhost:1"),)).ends([queue(0)])
    assert "localhost:1" in network.opened


def test_idle_connections_are_made_anew(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster(network)
    cluster.topics()
    monkeypatch.setattr(module, "IDLE_S", -1.0)
    cluster.topics()
    assert network.opened == ["ns:9876"] * 2


def test_stores_are_told_apart_where_brokers_say(network: Network) -> None:
    assert a_cluster(network).store_ids(["broker-a"], "orders") == {"broker-a": "s1"}
    network.replies[RequestCode.GET_BROKER_RUNTIME_INFO] = success(body=KVTable({}).build())
    assert a_cluster(network).store_ids(["broker-a"], "orders") == {}


def test_a_broker_is_asked_for_its_store_once_for_each_connection(network: Network) -> None:
    cluster = a_cluster(network)
    for _ in range(3):
        assert cluster.store_ids(["broker-a"], "orders") == {"broker-a": "s1"}
    assert [command.code for _, command in network.asked].count(RequestCode.GET_BROKER_RUNTIME_INFO) == 1
    network.replies[RequestCode.GET_BROKER_RUNTIME_INFO] = success(body=KVTable({"storeId": "s2"}).build())
    network.failures.append(ConnectionLost(BROKER_AT, "reset"))
    assert cluster.ends([queue(0)]) == {queue(0): 9}
    assert cluster.store_ids(["broker-a"], "orders") == {"broker-a": "s2"}


def test_a_broker_that_does_not_tell_its_store_now_is_asked_again(network: Network) -> None:
    told = network.replies[RequestCode.GET_BROKER_RUNTIME_INFO]
    network.replies[RequestCode.GET_BROKER_RUNTIME_INFO] = lambda _: RemotingCommand(14, flag=1, remark="starting")
    cluster = a_cluster(network)
    assert cluster.store_ids(["broker-a"], "orders") == {}
    network.replies[RequestCode.GET_BROKER_RUNTIME_INFO] = told
    assert cluster.store_ids(["broker-a"], "orders") == {"broker-a": "s1"}


def test_brokers_are_found_by_the_name_server_also_when_their_topic_is_gone(network: Network) -> None:
    info = ClusterInfo(broker_addr_table={"broker-a": BrokerData("c", "broker-a", {0: BROKER_AT})})
    network.replies[RequestCode.GET_BROKER_CLUSTER_INFO] = success(body=info.build())
    cluster = a_cluster(network)
    assert cluster.brokers() == {"broker-a"}
    network.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: RemotingCommand(17, flag=1)
    assert cluster.ends([queue(0)]) == {queue(0): 9}


def test_the_size_of_messages_is_sampled(network: Network) -> None:
    body = record(0) + record(1)
    network.replies[RequestCode.PULL_MESSAGE] = lambda _: pull_answer(0, 2, 0, 9, body)
    cluster = a_cluster(network)
    assert cluster.mean_bytes(queue(0), 0) == len(body) // 2
    network.replies[RequestCode.PULL_MESSAGE] = lambda _: pull_answer(19, 2, 0, 9)
    assert cluster.mean_bytes(queue(0), 0) == 0


def test_progress_is_shown_to_the_broker(network: Network) -> None:
    a_cluster(network).commit("g", {queue(1): 12})
    fields = network.asked[-1][1].ext_fields
    assert (fields["consumerGroup"], fields["queueId"], fields["commitOffset"]) == ("g", "1", "12")


def test_requests_are_signed_with_the_keys() -> None:
    cluster = Cluster(Access(name_servers=("ns:1",), keys=Credentials("k", "s")))
    command = RemotingCommand(1, ext_fields={})
    assert cluster._sign is not None
    cluster._sign(command)
    assert command.ext_fields["AccessKey"] == "k"


def test_a_process_has_one_cluster_for_each_way_to_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_clusters", {})
    one, other = Access(name_servers=("a:1",)), Access(name_servers=("b:1",))
    assert cluster_for(one) is cluster_for(Access(name_servers=("a:1",)))
    assert cluster_for(one) is not cluster_for(other)
    first = cluster_for(one)
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert cluster_for(one) is not first
    with pytest.raises(ConfigurationError):
        cluster_for(Access(name_servers=()))
