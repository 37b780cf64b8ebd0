"""Requests of tools to a name server about topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.tests.nameserver.registrations import SYSTEM_TOPICS, topics
from gateway.tests.nameserver.running import RunningNameServer, register
from gateway.tests.remoting.conversation import Peer
from wire.bodies.route import MAX_ADDED_BROKERS, QueueData, TopicRouteData
from wire.bodies.topics import TopicList
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import parse_header
from wire.headers.name_server import (
    AddWritePermOfBrokerRequest,
    AddWritePermOfBrokerResponse,
    DeleteTopicFromNamesrvRequest,
    GetRouteInfoRequest,
    GetTopicsByClusterRequest,
    RegisterTopicRequest,
    WipeWritePermOfBrokerRequest,
    WipeWritePermOfBrokerResponse,
)
from wire.message.flags import Permission, TopicFlag

CODES = RequestCode


def connected(tmp_path: Path, **settings: bool) -> Peer:
    """A peer of a name server that knows ``broker-a`` with a unit topic and one with unit subscriptions."""
    server = RunningNameServer(tmp_path, **settings)
    peer = server.connect()
    flagged = {
        **topics("orders"),
        **topics("unit", topic_sys_flag=TopicFlag.UNIT),
        **topics("sub", topic_sys_flag=TopicFlag.UNIT_SUBSCRIPTION),
    }
    plain = {name: topics()[name] for name in SYSTEM_TOPICS}
    register(peer, table={**flagged, **plain})
    return peer


def listed(peer: Peer, code: RequestCode) -> set[str]:
    header = GetTopicsByClusterRequest(cluster="DefaultCluster") if code == CODES.GET_TOPICS_BY_CLUSTER else None
    answer = peer.ask(code, header)
    assert answer.code == ResponseCode.SUCCESS
    return set(TopicList.parse(answer.body).topic_list)


def perm(peer: Peer, topic: str = "orders") -> int:
    answer = peer.ask(CODES.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic))
    return TopicRouteData.parse(answer.body).queue_datas[0].perm


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (CODES.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {*SYSTEM_TOPICS, "orders", "unit", "sub"}),
        (CODES.GET_TOPICS_BY_CLUSTER, {*SYSTEM_TOPICS, "orders", "unit", "sub"}),
        (CODES.GET_SYSTEM_TOPIC_LIST_FROM_NS, {"DefaultCluster", "broker-a"}),
        (CODES.GET_UNIT_TOPIC_LIST, {"unit"}),
        (CODES.GET_HAS_UNIT_SUB_TOPIC_LIST, {"sub"}),
        (CODES.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, {"sub"}),
    ],
)
def test_topic_lists(tmp_path: Path, code: RequestCode, expected: set[str]) -> None:
    assert listed(connected(tmp_path), code) == expected


def test_only_the_list_of_system_topics_names_a_broker(tmp_path: Path) -> None:
    peer = connected(tmp_path)
    system = TopicList.parse(peer.ask(CODES.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)
    assert system.broker_addr == "192.0.2.1:10911"
    assert TopicList.parse(peer.ask(CODES.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body).broker_addr is None


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("enable_all_topic_list", CODES.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        ("enable_topic_list", CODES.GET_UNIT_TOPIC_LIST),
        ("enable_topic_list", CODES.GET_HAS_UNIT_SUB_TOPIC_LIST),
        ("enable_topic_list", CODES.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    ],
)
def test_lists_can_be_switched_off(tmp_path: Path, setting: str, code: RequestCode) -> None:
    answer = connected(tmp_path, **{setting: False}).ask(code)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("disable")


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(tmp_path: Path) -> None:
    peer = connected(tmp_path)
    elsewhere = DeleteTopicFromNamesrvRequest(topic="orders", cluster_name="Other")
    assert peer.ask(CODES.DELETE_TOPIC_IN_NAMESRV, elsewhere).code == ResponseCode.SUCCESS
    assert "orders" in listed(peer, CODES.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    everywhere = DeleteTopicFromNamesrvRequest(topic="orders")
    assert peer.ask(CODES.DELETE_TOPIC_IN_NAMESRV, everywhere).code == ResponseCode.SUCCESS
    assert "orders" not in listed(peer, CODES.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)


def test_one_topic_can_be_registered_on_a_known_broker(tmp_path: Path) -> None:
    peer = connected(tmp_path)
    body = TopicRouteData(queue_datas=[QueueData("broker-a", 4, 4, 4)]).build(standard=False)
    answer = peer.ask(CODES.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest(topic="fresh"), body)
    assert answer.code == ResponseCode.SUCCESS
    assert perm(peer, "fresh") == Permission.READ


def test_a_topic_for_thousands_of_made_up_brokers_is_refused_before_they_are_read(tmp_path: Path) -> None:
    peer = connected(tmp_path)
    for count in (MAX_ADDED_BROKERS, MAX_ADDED_BROKERS + 1, 9_000):
        named = [{"brokerName": f"b{number}", "perm": "no number"} for number in range(count)]
        body = json.dumps({"queueDatas": named}).encode()
        answer = peer.ask(CODES.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest(topic="fresh"), body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        is_read = "a 64-bit integer" in (answer.remark or "")
        assert is_read == (count == MAX_ADDED_BROKERS), answer.remark
        assert is_read or "limit" in (answer.remark or "")
        assert "fresh" not in listed(peer, CODES.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)


def test_a_topic_with_an_invalid_name_is_not_registered(tmp_path: Path) -> None:
    body = TopicRouteData(queue_datas=[QueueData("broker-a", 4, 4, 4)]).build(standard=False)
    answer = connected(tmp_path).ask(CODES.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest(topic="../../x"), body)
    assert answer.code == ResponseCode.INVALID_PARAMETER


def test_write_permission_is_wiped_and_given_back(tmp_path: Path) -> None:
    peer = connected(tmp_path)
    answer = peer.ask(CODES.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequest(broker_name="broker-a"))
    assert parse_header(WipeWritePermOfBrokerResponse, answer.ext_fields).wipe_topic_count == 5
    assert perm(peer) == Permission.READ
    answer = peer.ask(CODES.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerRequest(broker_name="broker-a"))
    assert parse_header(AddWritePermOfBrokerResponse, answer.ext_fields).add_topic_count == 5
    assert perm(peer) == Permission.READ_WRITE
