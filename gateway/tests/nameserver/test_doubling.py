"""No request of the name server and no disconnect costs more than in proportion to the tables that it walks.

Each case doubles the topics of a broker, the brokers, the brokers of one connection and the key-value table at once, so
that work that multiplies two of them is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.remoting.declared import Size
from gateway.tests.doubling import Prepared, check_growth
from gateway.tests.nameserver.registrations import registration, topics
from gateway.tests.nameserver.running import RunningNameServer, register
from wire.bodies.route import QueueData, TopicRouteData
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers import name_server as headers
from wire.headers.declare import Header

SIZE = 1_000
CLUSTER = "DefaultCluster"
NAMESPACE = "ORDER_TOPIC_CONFIG"
BIG, BIG_ADDRESS = "big", "192.0.2.9:10911"


class World:
    """A name server that knows ``size`` topics of one broker, ``size`` brokers with two topics, ``size`` values."""

    def __init__(self, directory: Path, size: int) -> None:
        self.size = size
        values = {f"key-{number}": "broker-a:4" for number in range(size)}
        (directory / "kvConfig.json").write_text(json.dumps({"configTable": {NAMESPACE: values}}))
        self.server = RunningNameServer(directory, connection_brokers_limit=100_000)
        self.brokers, self.asker = self.server.connect(), self.server.connect()
        self.table = topics(*(f"topic-{number}" for number in range(size)))
        self.register(topics(), "first", "192.0.2.8:10911")
        for number in range(size):
            self._know("shared", broker_name=f"broker-{number}", address=_address(number))
        # The last one: its topics are there while the others leave, and they are what the search for theirs would cost.
        self._know(*(f"topic-{number}" for number in range(8 * size)), broker_name=BIG, address=BIG_ADDRESS)

    def _know(self, *names: str, **fields: Any) -> None:
        """Know a broker as if it had registered over the same connection."""
        told = registration(*names, channel_id=self.brokers.channel.id, **fields)
        assert self.server.service.routes.register(told, self.server.now_ms).refusal is None

    def register(self, table: dict[str, TopicConfig], name: str, address: str, counter: int = 1) -> None:
        """Let a broker tell of its topics."""
        answer = register(
            self.brokers, table=table, counter=counter, server=self.server, broker_name=name, broker_addr=address
        )
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
        """Ask, and let turns pass until the answer is there."""
        answers = self.asker.ask_all(code, header, body)
        while not answers:
            self.server.advance(0)
            answers = self.asker.received()
        (answer,) = answers
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        self.settle()
        return answer

    def settle(self) -> None:
        """Let turns pass until all work is done."""
        while any(call.getTime() <= self.server.reactor.seconds() for call in self.server.reactor.getDelayedCalls()):
            self.server.advance(0)


def _address(number: int) -> str:
    return f"10.0.{number // 250}.{number % 250}:10911"


def _register_many(world: World) -> None:
    world.register(world.table, BIG, BIG_ADDRESS, counter=2)


def _register_few(world: World) -> None:
    world.register(topics("shared", "more"), "broker-3", _address(3), counter=2)


def _disconnect(world: World) -> None:
    world.brokers.transport.loseConnection()
    world.settle()
    assert world.server.service.routes.topics() == []


def _expire(world: World) -> None:
    world.server.advance(200)
    world.settle()
    assert world.server.service.routes.topics() == []


def _add_topic(world: World) -> None:
    queues = [QueueData(f"broker-{number}", 4, 4, 6) for number in range(world.size)]
    body = TopicRouteData(queue_datas=queues).build(standard=True)
    world.ask(CODES.REGISTER_TOPIC_IN_NAMESRV, headers.RegisterTopicRequest(topic="added"), body)


def asks(code: RequestCode, kind: type[Header] | None = None, body: bytes = b"", **fields: Any) -> Case:
    """Ask one question."""
    header = None if kind is None else kind(**fields)
    return code, lambda world: world.ask(code, header, body)


def named(broker: str, address: str = "") -> dict[str, Any]:
    """Fields of requests about one broker."""
    return {"broker_name": broker, "broker_addr": address, "cluster_name": CLUSTER, "broker_id": 0}


Case = tuple[RequestCode | None, Callable[[World], object]]
CODES = RequestCode
BIG_ONE = named(BIG, BIG_ADDRESS)
CASES: dict[str, Case] = {
    "registration of many topics": (CODES.REGISTER_BROKER, _register_many),
    "registration of few topics": (CODES.REGISTER_BROKER, _register_few),
    "leaving of a broker with many topics": asks(CODES.UNREGISTER_BROKER, headers.UnRegisterBrokerRequest, **BIG_ONE),
    "leaving of a broker with few topics": asks(
        CODES.UNREGISTER_BROKER, headers.UnRegisterBrokerRequest, **named("broker-3", _address(3))
    ),
    "sign of life": asks(
        CODES.BROKER_HEARTBEAT,
        headers.BrokerHeartbeatRequest,
        broker_addr=BIG_ADDRESS,
        cluster_name=CLUSTER,
        broker_name=BIG,
    ),
    "version of the topics": asks(
        CODES.QUERY_DATA_VERSION, headers.QueryDataVersionRequest, DataVersion().build(), **BIG_ONE
    ),
    "brokers of a name": asks(
        CODES.GET_BROKER_MEMBER_GROUP, headers.GetBrokerMemberGroupRequest, cluster_name=CLUSTER, broker_name=BIG
    ),
    "route over many brokers": asks(CODES.GET_ROUTEINFO_BY_TOPIC, headers.GetRouteInfoRequest, topic="shared"),
    "all brokers": asks(CODES.GET_BROKER_CLUSTER_INFO),
    "all topics": asks(CODES.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
    "topics of a cluster": asks(CODES.GET_TOPICS_BY_CLUSTER, headers.GetTopicsByClusterRequest, cluster=CLUSTER),
    "system topics": asks(CODES.GET_SYSTEM_TOPIC_LIST_FROM_NS),
    "unit topics": asks(CODES.GET_UNIT_TOPIC_LIST),
    "topics of unit subscriptions": asks(CODES.GET_HAS_UNIT_SUB_TOPIC_LIST),
    "other topics of unit subscriptions": asks(CODES.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    "deletion of a topic of many brokers": asks(
        CODES.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopicFromNamesrvRequest, topic="shared"
    ),
    "a topic for many brokers": (CODES.REGISTER_TOPIC_IN_NAMESRV, _add_topic),
    "no more writing to a broker": asks(
        CODES.WIPE_WRITE_PERM_OF_BROKER, headers.WipeWritePermOfBrokerRequest, broker_name=BIG
    ),
    "writing to a broker": asks(CODES.ADD_WRITE_PERM_OF_BROKER, headers.AddWritePermOfBrokerRequest, broker_name=BIG),
    "a value": asks(CODES.GET_KV_CONFIG, headers.GetKVConfigRequest, namespace=NAMESPACE, key="key-1"),
    "a new value": asks(
        CODES.PUT_KV_CONFIG, headers.PutKVConfigRequest, namespace=NAMESPACE, key="new", value="broker-a:4"
    ),
    "a value less": asks(CODES.DELETE_KV_CONFIG, headers.DeleteKVConfigRequest, namespace=NAMESPACE, key="key-1"),
    "values of a namespace": asks(
        CODES.GET_KVLIST_BY_NAMESPACE, headers.GetKVListByNamespaceRequest, namespace=NAMESPACE
    ),
    "end of a connection with many brokers": (None, _disconnect),
    "silence of many brokers": (None, _expire),
}
WITHOUT_A_TABLE = {
    CODES.GET_NAMESRV_CONFIG: "lists the settings, whose number is fixed",
    CODES.UPDATE_NAMESRV_CONFIG: "always refused",
}


@pytest.mark.parametrize("name", CASES)
def test_twice_the_tables_are_about_twice_the_work(name: str, tmp_path: Path) -> None:
    _, operation = CASES[name]

    def prepare(size: int) -> Prepared:
        world = World(tmp_path, size)
        return lambda: operation(world)

    check_growth(prepare, SIZE, name)


def test_every_request_has_a_case_or_a_reason(tmp_path: Path) -> None:
    answered = {entry.code for entry in RunningNameServer(tmp_path).service.dispatch.entries()}
    assert answered == {code for code, _ in CASES.values() if code is not None} | set(WITHOUT_A_TABLE)


NO_LIST = {
    CODES.GET_ROUTEINFO_BY_TOPIC: "is waited for by stock clients, and takes turns",
    **dict.fromkeys(
        (
            *(CODES.REGISTER_BROKER, CODES.UNREGISTER_BROKER, CODES.BROKER_HEARTBEAT, CODES.QUERY_DATA_VERSION),
            *(CODES.GET_BROKER_MEMBER_GROUP, CODES.DELETE_TOPIC_IN_NAMESRV, CODES.REGISTER_TOPIC_IN_NAMESRV),
            *(CODES.WIPE_WRITE_PERM_OF_BROKER, CODES.ADD_WRITE_PERM_OF_BROKER, CODES.GET_KV_CONFIG),
            *(CODES.PUT_KV_CONFIG, CODES.DELETE_KV_CONFIG),
        ),
        "is answered with one entry, or with nothing",
    ),
}


def test_every_request_whose_answer_grows_with_tables_is_a_list(tmp_path: Path) -> None:
    entries = RunningNameServer(tmp_path).service.dispatch.entries()
    lists = {entry.code for entry in entries if entry.size is Size.LIST}
    assert {code for code, _ in CASES.values() if code is not None} - lists == set(NO_LIST)
