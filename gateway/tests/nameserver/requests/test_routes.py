"""Requests of clients to a name server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.nameserver.requests.routes import BROKERS_AT_ONCE
from gateway.tests.nameserver.registrations import registration
from gateway.tests.nameserver.running import RunningNameServer, register
from gateway.tests.remoting.conversation import outcome
from wire.bodies.route import ClusterInfo, TopicRouteData
from wire.codes import RequestCode, ResponseCode
from wire.headers.name_server import GetRouteInfoRequest

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.mark.parametrize(
    ("version", "accepts_standard", "standard"),
    [(513, None, True), (401, None, True), (399, None, False), (399, True, True), (399, False, False)],
)
def test_the_form_of_a_route_is_what_the_client_can_read(
    tmp_path: Path, version: int, accepts_standard: bool | None, standard: bool
) -> None:
    server = RunningNameServer(tmp_path)
    register(server.connect(), "orders")
    header = GetRouteInfoRequest(topic="orders", accept_standard_json_only=accepts_standard)
    body = server.connect().ask(ROUTE, header, version=version).body
    assert (b'"brokerAddrs":{"0":"192.0.2.1:10911"}' in body) is standard
    assert (b'"brokerAddrs":{0:"192.0.2.1:10911"}' in body) is not standard
    if standard:
        assert json.loads(body)["queueDatas"][0]["brokerName"] == "broker-a"


def test_a_route_with_many_slaves_is_written_in_turns(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path)
    for number in range(BROKERS_AT_ONCE + 1):
        name, broker_id = f"broker-{number // 50}", number % 50
        told = registration("orders", broker_name=name, broker_id=broker_id, address=f"10.0.0.{number}:10911")
        assert server.service.routes.register(told, server.now_ms).refusal is None
    peer = server.connect()
    assert peer.ask_all(ROUTE, GetRouteInfoRequest(topic="orders")) == []
    server.advance(0)
    (answer,) = peer.received()
    brokers = TopicRouteData.parse(answer.body).broker_datas
    assert sum(len(broker.broker_addrs) for broker in brokers) == BROKERS_AT_ONCE + 1


def test_a_topic_without_route_is_refused_in_upstreams_words(tmp_path: Path) -> None:
    answer = RunningNameServer(tmp_path).connect().ask(ROUTE, GetRouteInfoRequest(topic="nowhere"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == "No topic route info in name server for the topic: nowhere"


def test_a_question_without_topic_is_refused(tmp_path: Path) -> None:
    answer = RunningNameServer(tmp_path).connect().ask(ROUTE)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "'topic' is missing" in (answer.remark or "")


def test_no_routes_are_told_while_brokers_are_waited_for(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path, need_wait_for_service=True, wait_seconds_for_service=45)
    peer = server.connect()
    register(peer, "orders")
    header = GetRouteInfoRequest(topic="orders")
    answer = peer.ask(ROUTE, header)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
    server.advance(45)
    assert peer.ask(ROUTE, header).code == ResponseCode.SUCCESS


def test_the_order_configuration_is_part_of_the_route_when_the_setting_says_so(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path, order_message_enable=True)
    outcome(server.service.kv_config.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4"))
    peer = server.connect()
    register(peer, "orders")
    route = TopicRouteData.parse(peer.ask(ROUTE, GetRouteInfoRequest(topic="orders")).body)
    assert route.order_topic_conf == "broker-a:4"


def test_the_clusters_are_told_in_javas_form(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path)
    peer = server.connect()
    register(peer, "orders")
    body = peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body
    assert b'"brokerAddrs":{0:"192.0.2.1:10911"}' in body
    clusters = ClusterInfo.parse(body).cluster_addr_table
    assert {cluster: list(names) for cluster, names in clusters.items()} == {"DefaultCluster": ["broker-a"]}
