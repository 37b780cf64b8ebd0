"""Requests of brokers to a name server."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.tests.nameserver.registrations import topics
from gateway.tests.nameserver.running import RunningNameServer, register
from gateway.tests.remoting.conversation import Peer
from wire.bodies.declare import Steps
from wire.bodies.fastjson import parse_json
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.route import ClusterInfo, QueueData, TopicRouteData
from wire.bodies.tools.statistics import KVTable
from wire.bodies.topics import MAX_QUEUES, DataVersion, TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.disk.config_json import build_kv_config
from wire.headers.declare import Header, parse_header
from wire.headers.name_server import (
    AddWritePermOfBrokerRequest,
    BrokerHeartbeatRequest,
    DeleteTopicFromNamesrvRequest,
    GetBrokerMemberGroupRequest,
    GetKVListByNamespaceRequest,
    GetRouteInfoRequest,
    PutKVConfigRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    RegisterTopicRequest,
    UnRegisterBrokerRequest,
    WipeWritePermOfBrokerRequest,
)
from wire.message.flags import Permission

IDENTITY: dict[str, Any] = {
    "broker_name": "broker-a",
    "broker_addr": "192.0.2.1:10911",
    "cluster_name": "DefaultCluster",
}


@pytest.fixture
def server(tmp_path: Path) -> RunningNameServer:
    return RunningNameServer(tmp_path)


def route_code(peer: Peer, topic: str) -> int:
    return peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic)).code


def test_a_broker_registers_and_clients_find_its_topics(server: RunningNameServer) -> None:
    answer = register(server.connect(), "orders")
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
    route = server.connect().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="orders"))
    assert TopicRouteData.parse(route.body).broker_datas[0].broker_addrs == {0: "192.0.2.1:10911"}


@pytest.mark.parametrize("version", [409, 479, 513])
def test_a_compressed_registration_is_read_for_each_version(server: RunningNameServer, version: int) -> None:
    answer = register(server.connect(), "orders", compressed=True, version=version)
    assert answer.code == ResponseCode.SUCCESS
    assert route_code(server.connect(), "orders") == ResponseCode.SUCCESS


def test_three_brokers_of_one_name_are_a_master_and_two_slaves(server: RunningNameServer) -> None:
    peers = [server.connect() for _ in range(3)]
    for broker_id, peer in enumerate(peers):
        address = f"192.0.2.{broker_id + 1}:10911"
        answer = register(peer, "orders", broker_id=broker_id, broker_addr=address, ha_server_addr=f"{address}2")
        told = parse_header(RegisterBrokerResponse, answer.ext_fields)
        expected = (None, None) if broker_id == 0 else ("192.0.2.1:10911", "192.0.2.1:109112")
        assert (told.master_addr, told.ha_server_addr) == expected
    info = ClusterInfo.parse(server.connect().ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    assert info.broker_addr_table["broker-a"].broker_addrs == {
        0: "192.0.2.1:10911",
        1: "192.0.2.2:10911",
        2: "192.0.2.3:10911",
    }
    peers[0].leave()
    info = ClusterInfo.parse(server.connect().ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    assert set(info.broker_addr_table["broker-a"].broker_addrs) == {1, 2}


def test_a_near_broker_is_found_where_each_client_reached_the_name_server(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path, near_brokers=True)
    broker = server.connect()
    register(broker, "orders", broker_addr="127.0.0.1:10921")
    for reached_at in ("192.0.2.100", "198.51.100.7"):
        client = server.connect(reached_at=reached_at)
        route = client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="orders"))
        assert TopicRouteData.parse(route.body).broker_datas[0].broker_addrs == {0: f"{reached_at}:10921"}
    near = {**IDENTITY, "broker_addr": "127.0.0.1:10921"}
    for _ in range(3):  # by the address it gave, it is known: as long as it beats
        server.advance(100)
        broker.ask(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatRequest(**near))
    assert route_code(server.connect(), "orders") == ResponseCode.SUCCESS
    leaving = UnRegisterBrokerRequest(broker_id=0, **near)
    broker.ask(RequestCode.UNREGISTER_BROKER, leaving)
    assert route_code(server.connect(), "orders") == ResponseCode.TOPIC_NOT_EXIST


def test_a_registration_that_says_the_same_again_is_not_read_again(
    server: RunningNameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    parse = RegisterBrokerBody.parse_in_steps

    def counting(raw: bytes, compressed: bool, version: int) -> Steps[RegisterBrokerBody]:
        read.append(raw)
        return parse(raw, compressed, version)

    monkeypatch.setattr(RegisterBrokerBody, "parse_in_steps", counting)
    broker = server.connect()
    for _ in range(3):
        assert register(broker, "orders").code == ResponseCode.SUCCESS
        server.advance(100)
    assert len(read) == 1
    assert route_code(server.connect(), "orders") == ResponseCode.SUCCESS, "each of them is a sign of life"
    register(broker, "orders", broker_name="broker-b")
    assert len(read) == 2, "the same from another broker"
    broker.leave()
    assert route_code(server.connect(), "orders") == ResponseCode.TOPIC_NOT_EXIST
    register(server.connect(), "orders", broker_name="broker-b")
    assert len(read) == 3, "it was forgotten meanwhile"
    assert route_code(server.connect(), "orders") == ResponseCode.SUCCESS


def test_a_body_that_was_changed_on_the_way_is_refused(server: RunningNameServer) -> None:
    answer = register(server.connect(), "orders", body_crc32=12345)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")


def test_a_body_without_checksum_is_taken(server: RunningNameServer) -> None:
    assert register(server.connect(), "orders", body_crc32=0).code == ResponseCode.SUCCESS


def test_a_malformed_body_is_refused_and_the_connection_stays(server: RunningNameServer) -> None:
    peer = server.connect()
    answer = register(peer, "orders", compressed=True, body_crc32=0)
    assert answer.code == ResponseCode.SUCCESS
    fields = {
        "brokerName": "b",
        "brokerAddr": "a:1",
        "clusterName": "c",
        "haServerAddr": "a:2",
        "brokerId": "0",
        "compressed": "true",
    }
    answer = peer.ask(RequestCode.REGISTER_BROKER, fields=fields, body=b"not zlib")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "no zlib stream" in (answer.remark or "")
    assert not peer.channel.closed


def test_a_broker_nobody_knows_with_one_topic_is_refused(server: RunningNameServer) -> None:
    answer = register(server.connect(), table={"one": TopicConfig(topic_name="one")})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("register broker failed")


def test_topics_with_invalid_names_are_left_out_but_not_those_of_the_broker_and_its_cluster(
    server: RunningNameServer,
) -> None:
    peer = server.connect()
    register(peer, "orders", "../../x", "t" * 128, "host.example", broker_name="host.example")
    assert route_code(peer, "orders") == ResponseCode.SUCCESS
    assert route_code(peer, "host.example") == ResponseCode.SUCCESS
    assert route_code(peer, "../../x") == ResponseCode.TOPIC_NOT_EXIST
    assert route_code(peer, "t" * 128) == ResponseCode.TOPIC_NOT_EXIST


def test_a_registering_broker_is_told_the_order_configuration(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path)
    peer = server.connect()
    put = PutKVConfigRequest(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")
    peer.ask(RequestCode.PUT_KV_CONFIG, put)
    assert KVTable.parse(register(peer, "orders").body).table == {"orders": "broker-a:4"}
    quiet = RunningNameServer(tmp_path, return_order_topic_config_to_broker=False)
    assert register(quiet.connect(), "orders").body == b""


def test_an_order_configuration_beyond_a_frame_stops_no_registration(tmp_path: Path) -> None:
    values = {f"topic{number}": "broker-a:4;" * 2_000 for number in range(800)}
    (tmp_path / "kvConfig.json").write_bytes(build_kv_config({"ORDER_TOPIC_CONFIG": values}))
    server = RunningNameServer(tmp_path)
    peer = server.connect()
    answer = register(peer, "orders")
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
    assert route_code(peer, "orders") == ResponseCode.SUCCESS
    listed = peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequest(namespace="ORDER_TOPIC_CONFIG"))
    assert listed.code == ResponseCode.SYSTEM_ERROR
    assert "an answer may have 4194304" in str(listed.remark)


def test_an_unregistered_broker_is_gone(server: RunningNameServer) -> None:
    peer = server.connect()
    register(peer, "orders")
    header = UnRegisterBrokerRequest(broker_id=0, **IDENTITY)
    assert peer.ask(RequestCode.UNREGISTER_BROKER, header).code == ResponseCode.SUCCESS
    assert route_code(peer, "orders") == ResponseCode.TOPIC_NOT_EXIST
    assert peer.ask(RequestCode.UNREGISTER_BROKER, header).code == ResponseCode.SUCCESS


def test_a_broker_whose_connection_closes_is_gone_at_once(server: RunningNameServer) -> None:
    broker, client = server.connect(), server.connect()
    register(broker, "orders")
    register(broker, "orders")
    broker.leave()
    assert route_code(client, "orders") == ResponseCode.TOPIC_NOT_EXIST


def test_a_broker_stays_when_a_stranger_registers_it_and_leaves(server: RunningNameServer) -> None:
    broker, stranger, client = server.connect(), server.connect(), server.connect()
    register(broker, "orders")
    register(stranger)
    stranger.leave()
    assert route_code(client, "orders") == ResponseCode.SUCCESS
    register(broker, "orders", "bills")
    assert route_code(client, "bills") == ResponseCode.SUCCESS
    broker.leave()
    assert route_code(client, "orders") == ResponseCode.TOPIC_NOT_EXIST


def test_a_silent_broker_is_gone_after_two_minutes_and_its_connection_closed(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path, server_channel_max_idle_time_seconds=86_400)
    broker = server.connect()
    register(broker, "orders")
    for _ in range(24):
        server.advance(5)
    assert not broker.channel.closed
    server.advance(5)
    assert broker.channel.closed
    assert route_code(server.connect(), "orders") == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("asked_ms", "gone_after_s"), [(10_000, 15), (-1, 125)])
def test_a_broker_may_ask_for_another_timeout(server: RunningNameServer, asked_ms: int, gone_after_s: int) -> None:
    broker = server.connect()
    register(broker, "orders", heartbeat_timeout_millis=asked_ms)
    for _ in range(gone_after_s // 5 - 1):
        server.advance(5)
    assert not broker.channel.closed
    server.advance(5)
    assert broker.channel.closed


def test_heartbeats_keep_a_broker(server: RunningNameServer) -> None:
    broker = server.connect()
    register(broker, "orders")
    for _ in range(60):
        server.advance(5)
        assert broker.ask_all(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatRequest(**IDENTITY), oneway=True) == []
    assert broker.ask(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatRequest(**IDENTITY)).code == 0
    assert route_code(broker, "orders") == ResponseCode.SUCCESS


def test_data_versions_are_compared_and_an_equal_one_is_a_sign_of_life(server: RunningNameServer) -> None:
    broker = server.connect()
    header = QueryDataVersionRequest(broker_id=0, **IDENTITY)

    def changed(counter: int) -> tuple[bool, bytes]:
        answer = broker.ask(RequestCode.QUERY_DATA_VERSION, header, DataVersion(counter=counter).build())
        return parse_header(QueryDataVersionResponse, answer.ext_fields).changed, answer.body

    assert changed(1) == (True, b"")
    register(broker, "orders", counter=1)
    for _ in range(60):
        server.advance(5)
        assert changed(1)[0] is False
    told = changed(2)
    assert told[0] is True
    assert DataVersion.parse(told[1]).counter == 1
    assert route_code(broker, "orders") == ResponseCode.SUCCESS


def test_the_group_of_a_broker_name(server: RunningNameServer) -> None:
    peer = server.connect()
    register(peer, "orders")
    header = GetBrokerMemberGroupRequest(cluster_name="DefaultCluster", broker_name="broker-a")
    group = parse_json(peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, header).body)["brokerMemberGroup"]
    assert group["brokerName"] == "broker-a"
    assert list(group["brokerAddrs"].values()) == ["192.0.2.1:10911"]
    other = GetBrokerMemberGroupRequest(cluster_name="DefaultCluster", broker_name="stranger")
    group = parse_json(peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, other).body)["brokerMemberGroup"]
    assert group["brokerAddrs"] == {}


def test_a_large_registration_is_no_trouble(server: RunningNameServer) -> None:
    names = [f"topic-{number}" for number in range(2_000)]
    assert register(server.connect(), *names, server=server).code == ResponseCode.SUCCESS
    assert len(server.service.routes.topics()) == len(topics(*names))


def start_large(peer: Peer, counter: int = 1, count: int = 5_000) -> list[RemotingCommand]:
    """Register with many topics; the answers that are there at once."""
    table = topics(*(f"topic-{number}" for number in range(count)))
    body = RegisterBrokerBody(DataVersion(counter=counter), table).build(compressed=True)
    header = RegisterBrokerRequest(
        **IDENTITY, ha_server_addr="192.0.2.1:10912", broker_id=0, compressed=True, body_crc32=0
    )
    return peer.ask_all(RequestCode.REGISTER_BROKER, header, body)


def settled(server: RunningNameServer, peer: Peer) -> list[RemotingCommand]:
    """Return a peer's answers once nothing is left to do."""
    while any(call.getTime() <= server.reactor.seconds() for call in server.reactor.getDelayedCalls()):
        server.advance(0)
    return peer.received()


def test_others_are_answered_while_a_large_registration_is_read(server: RunningNameServer) -> None:
    register(server.connect(), "orders", broker_name="b", broker_addr="192.0.2.2:10911")
    broker, client = server.connect(), server.connect()
    assert start_large(broker) == []
    answers: list[list[RemotingCommand]] = []

    def ask() -> None:
        """Ask for a route in each turn, until the broker has its answer."""
        assert route_code(client, "orders") == ResponseCode.SUCCESS
        answers.append(broker.received())
        if not answers[-1]:
            server.reactor.callLater(0, ask)

    ask()
    server.advance(0)
    assert len(answers) > 5
    assert [answer.code for answer in answers[-1]] == [ResponseCode.SUCCESS]
    assert route_code(client, "topic-4999") == ResponseCode.SUCCESS


def test_a_broker_that_leaves_while_it_is_read_is_not_registered(server: RunningNameServer) -> None:
    broker = server.connect()
    assert start_large(broker) == []
    broker.leave()
    settled(server, broker)
    assert server.service.routes.topics() == []


def test_a_broker_that_unregisters_while_it_is_read_is_not_registered(server: RunningNameServer) -> None:
    broker = server.connect()
    assert start_large(broker) == []
    broker.ask(RequestCode.UNREGISTER_BROKER, UnRegisterBrokerRequest(broker_id=0, **IDENTITY))
    (answer,) = settled(server, broker)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "the broker left while its registration was read",
    )
    assert server.service.routes.topics() == []


def test_an_unregistration_counts_for_what_came_before_it(server: RunningNameServer) -> None:
    broker = server.connect()
    assert start_large(broker) == []
    broker.ask(RequestCode.UNREGISTER_BROKER, UnRegisterBrokerRequest(broker_id=0, **IDENTITY))
    assert start_large(broker, counter=2, count=3_000) == []
    assert [answer.code for answer in settled(server, broker)] == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS]
    assert route_code(broker, "topic-2999") == ResponseCode.SUCCESS


def test_what_a_broker_that_went_registered_is_not_read(
    server: RunningNameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    parse = RegisterBrokerBody.parse_in_steps

    def counting(raw: bytes, compressed: bool, version: int) -> Steps[RegisterBrokerBody]:
        read.append(raw)
        return parse(raw, compressed, version)

    monkeypatch.setattr(RegisterBrokerBody, "parse_in_steps", counting)
    other, closing, leaving = server.connect(), server.connect(), server.connect()
    start_large(other)
    start(closing, "orders", broker_addr="192.0.2.2:10911")
    start(leaving, "orders", broker_addr="192.0.2.3:10911")
    closing.leave()
    gone = {**IDENTITY, "broker_addr": "192.0.2.3:10911"}
    leaving.ask(RequestCode.UNREGISTER_BROKER, UnRegisterBrokerRequest(broker_id=0, **gone))
    assert [answer.code for answer in settled(server, other)] == [ResponseCode.SUCCESS]
    assert [answer.code for answer in leaving.received()] == [ResponseCode.SYSTEM_ERROR]
    assert len(read) == 1


def test_registrations_of_a_broker_are_taken_one_after_the_other(server: RunningNameServer) -> None:
    old, new = server.connect(), server.connect()
    assert start_large(old, counter=1) == []
    assert start_large(new, counter=2, count=3_000) == []
    assert [answer.code for answer in settled(server, old)] == [ResponseCode.SUCCESS]
    assert [answer.code for answer in settled(server, new)] == [ResponseCode.SUCCESS]
    old.leave()
    assert route_code(new, "topic-2999") == ResponseCode.SUCCESS
    assert route_code(new, "topic-4999") == ResponseCode.SUCCESS, "unlisted topics stay"


def start(peer: Peer, *names: str, counter: int = 1, perm: int = 6, **fields: Any) -> None:
    """Register while another registration is read: ``broker-a`` with exactly these topics, or what ``fields`` say."""
    table = {name: TopicConfig(name, perm=perm) for name in names}
    body = RegisterBrokerBody(DataVersion(counter=counter), table).build(compressed=False)
    values = {**IDENTITY, "ha_server_addr": "192.0.2.1:10912", "broker_id": 0, **fields}
    assert peer.ask_all(RequestCode.REGISTER_BROKER, RegisterBrokerRequest(**values), body) == []


def test_all_of_a_broker_that_tells_of_what_changed_only_is_taken(server: RunningNameServer) -> None:
    """So do brokers of 4.x, and those of 5.x with ``enableSingleTopicRegister=false``."""
    broker, other = server.connect(), server.connect()
    register(broker, "first", broker_name="b", broker_addr="192.0.2.2:10911")
    start_large(other)
    for counter, name in ((2, "second"), (3, "third")):
        start(broker, name, counter=counter, broker_name="b", broker_addr="192.0.2.2:10911")
    assert [answer.code for answer in settled(server, broker)] == [ResponseCode.SUCCESS] * 2
    for name in ("first", "second", "third"):
        assert route_code(broker, name) == ResponseCode.SUCCESS


def test_a_topic_that_is_created_while_its_broker_is_read_is_taken_too(server: RunningNameServer) -> None:
    broker = server.connect()
    start_large(broker, counter=1)
    start(broker, "new", counter=2)
    assert [answer.code for answer in settled(server, broker)] == [ResponseCode.SUCCESS] * 2
    assert route_code(broker, "topic-4999") == ResponseCode.SUCCESS
    assert route_code(broker, "new") == ResponseCode.SUCCESS


def test_many_small_registrations_behind_a_large_one_are_answered(server: RunningNameServer) -> None:
    peers = [server.connect() for _ in range(900)]
    start_large(server.connect(), count=1_500)
    for number, peer in enumerate(peers):
        start(peer, "one", "two", broker_name=f"b{number}", broker_addr=f"192.0.2.2:{10_000 + number}")
    codes = [answer.code for peer in peers for answer in settled(server, peer)]
    assert codes == [ResponseCode.SUCCESS] * len(peers)


def test_a_broker_that_registers_lives_while_it_waits_to_be_read(server: RunningNameServer) -> None:
    broker = server.connect()
    register(broker, "orders", broker_name="b", broker_addr="192.0.2.2:10911")
    for _ in range(23):
        server.advance(5)
    start_large(server.connect())
    start(broker, "bills", counter=2, broker_name="b", broker_addr="192.0.2.2:10911")
    server.now_ms += 10_000
    assert [live.broker_name for live in server.service.routes.expire(server.now_ms)] == []
    assert [answer.code for answer in settled(server, broker)] == [ResponseCode.SUCCESS]


def test_a_broker_that_takes_over_is_read_although_it_was_outdated_before(server: RunningNameServer) -> None:
    """What was not accepted is not in the table, and is not a repetition when it comes again."""
    old, new = server.connect(), server.connect()
    at_old, at_new = ({"broker_addr": address} for address in ("192.0.2.1:10911", "192.0.2.2:10911"))
    table = topics("orders")

    def take(peer: Peer, broker_id: int, state: int, **fields: Any) -> None:
        body = RegisterBrokerBody(DataVersion(state_version=state, counter=1), table).build(compressed=False)
        header = RegisterBrokerRequest(**{**IDENTITY, **fields}, ha_server_addr="192.0.2.1:1", broker_id=broker_id)
        assert peer.ask(RequestCode.REGISTER_BROKER, header, body).code == ResponseCode.SUCCESS

    take(old, 0, 2, **at_old)
    take(new, 1, 1, **at_new)
    take(new, 0, 1, **at_new)
    old.leave()
    take(new, 0, 1, **at_new)
    route = TopicRouteData.parse(new.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="orders")).body)
    assert [queues.perm for queues in route.queue_datas] == [Permission.READ_WRITE]


QUEUES = TopicRouteData(queue_datas=[QueueData("broker-a", 3, 3, Permission.READ)], broker_datas=[]).build(
    standard=True
)


@pytest.mark.parametrize(
    ("code", "header", "body", "told", "expected"),
    [
        (RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest(topic="late"), b"", 6, None),
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequest(broker_name="broker-a"), b"", 6, (16, 4)),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerRequest(broker_name="broker-a"), b"", 4, (16, 6)),
        (RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest(topic="late"), QUEUES, 6, (3, 4)),
    ],
)
def test_what_an_administrator_changes_counts_for_what_came_before_it(
    server: RunningNameServer, code: RequestCode, header: Header, body: bytes, told: int, expected: object
) -> None:
    """A registration that is read meanwhile does not undo it."""
    broker, tool = server.connect(), server.connect()
    register(broker, "orders")
    start_large(broker, counter=2)
    start(broker, "late", counter=3, perm=told)
    assert tool.ask_all(code, header, body) == []
    settled(server, broker)
    assert [answer.code for answer in tool.received()] == [ResponseCode.SUCCESS]
    answer = tool.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="late"))
    queues = TopicRouteData.parse(answer.body).queue_datas[0] if answer.body else None
    assert (None if queues is None else (queues.read_queue_nums, queues.perm)) == expected


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("count", ["read_queue_nums", "write_queue_nums"])
def test_a_topic_with_more_queues_than_a_topic_has_is_left_out(
    server: RunningNameServer, compressed: bool, count: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = topics("orders", "most")
    for name, queues in (("vast", 2**31 - 1), ("most", MAX_QUEUES)):
        table[name] = replace(TopicConfig(name), **{count: queues})
    peer = server.connect()
    with caplog.at_level(logging.WARNING):
        for counter in range(1, 40):
            answer = register(peer, table=table, counter=counter, compressed=compressed)
            assert answer.code == ResponseCode.SUCCESS
    known = {topic: route_code(server.connect(), topic) for topic in ("orders", "most", "vast")}
    assert known == {"orders": 0, "most": 0, "vast": ResponseCode.TOPIC_NOT_EXIST}
    (told,) = [record for record in caplog.records if "left out" in record.getMessage()]
    assert "2147483647" in told.__dict__["facts"]["reason"]
    assert str(MAX_QUEUES) in told.__dict__["facts"]["reason"]
