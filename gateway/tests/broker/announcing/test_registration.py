"""A broker tells name servers of itself: when, what, and what it does when they do not listen."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused

from gateway.broker.announcing.registration import (
    Announcement,
    NameServerLink,
    NameServerRegistration,
    RemoteNameServer,
    announced_topics,
    build_registration,
)
from gateway.nameserver.addresses import AutoAddress
from gateway.nameserver.direct import DirectRegistration
from gateway.nameserver.route_table import Registration, RouteTable
from gateway.remoting.client import RemotingClient
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.protocol import RemotingProtocol
from gateway.settings import Address, Advertised, Settings
from gateway.tests.nameserver.registrations import registration, topics
from gateway.tests.remoting.conversation import Peer, failure_of, memory_reactor, outcome
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.name_server import (
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnRegisterBrokerRequest,
)

SETTINGS = replace(Settings(), broker_name="broker-a", advertise="auto")
NAME_SERVER = Address("192.0.2.100", 9876)
OUR_ADDRESS = "10.9.9.9"
MASTER = RegisterBrokerResponse(master_addr="10.0.0.7:10911", ha_server_addr="10.0.0.7:10912")
REGISTER, UNREGISTER = RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER


class Topics:
    """A topic table whose changes are made by hand."""

    def __init__(self) -> None:
        self.data_version = DataVersion(counter=1)
        self._topics = topics("orders")
        self._listeners: list[Callable[[], None]] = []

    def table(self) -> Mapping[str, TopicConfig]:
        return self._topics

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def add(self, name: str) -> None:
        self._topics |= topics(name)
        self.data_version = DataVersion(counter=self.data_version.counter + 1)
        for listener in self._listeners:
            listener()


class Broker:
    """A registration service with one remote name server, on a memory reactor."""

    def __init__(self, *links: NameServerLink, **settings: Any) -> None:
        self.reactor = memory_reactor()
        self.settings = replace(SETTINGS, **settings)
        self.topics = Topics()
        self.client = RemotingClient(self.reactor, Dispatch(), self.settings)
        remote = RemoteNameServer(NAME_SERVER, self.client, self.settings)
        self.service = NameServerRegistration(
            name_servers=links or (remote,),
            topics=self.topics,
            settings=self.settings,
            listen_port=lambda: 10911,
            reactor=self.reactor,
        )

    @property
    def attempts(self) -> int:
        return len(self.reactor.tcpClients)

    def accept(self) -> Peer:
        host, port, factory, _, _ = self.reactor.tcpClients[-1]
        protocol = factory.buildProtocol(IPv4Address("TCP", host, port))
        assert isinstance(protocol, RemotingProtocol)
        return Peer(protocol, (host, port), (OUR_ADDRESS, 40_000))

    def refuse(self) -> None:
        error = Refused()  # type: ignore[no-untyped-call]
        self.reactor.tcpClients[-1][2].clientConnectionFailed(self.reactor.connectors[-1], failure_of(error))

    def take(self, server: Peer, seconds: float = 0) -> list[RemotingCommand]:
        """Return what the name server got after some time."""
        self.reactor.advance(seconds)
        self.reactor.advance(0)
        return server.received()

    def started(self) -> Peer:
        """Start and answer the first registration."""
        self.service.startService()
        server = self.accept()
        (first,) = self.take(server)
        server.send(first.response(ResponseCode.SUCCESS))
        return server


def announcement(**changes: Any) -> Announcement:
    values: dict[str, Any] = {
        "cluster": "DefaultCluster",
        "broker_name": "broker-a",
        "broker_id": 0,
        "advertised": Advertised(None, None),
        "listen_port": 10911,
        "topics": topics("orders"),
        "data_version": DataVersion(counter=3),
    }
    return Announcement(**{**values, **changes})


def test_the_body_carries_all_topics_and_its_checksum() -> None:
    for compressed in (False, True):
        header, body = build_registration(announcement(), OUR_ADDRESS, compressed=compressed)
        assert header.body_crc32 == zlib.crc32(body) & 0x7FFFFFFF
        told = RegisterBrokerBody.parse(body, header.compressed, 513)
        assert set(told.topic_config_table) == set(topics("orders"))
        assert told.data_version == DataVersion(counter=3)


@pytest.mark.parametrize(
    ("advertised", "address"),
    [
        (Advertised(None, None), "10.9.9.9:10911"),
        (Advertised("mq.example.org", None), "mq.example.org:10911"),
        (Advertised("mq.example.org", 30911), "mq.example.org:30911"),
        (Advertised("2001:db8::1", None), "[2001:db8::1]:10911"),
    ],
)
def test_the_address_is_the_advertised_one_or_where_we_reach_the_name_server_from(
    advertised: Advertised, address: str
) -> None:
    header, _ = build_registration(announcement(advertised=advertised), OUR_ADDRESS, compressed=False)
    assert header.broker_addr == address


def test_the_brokers_permission_limits_that_of_its_topics() -> None:
    table = topics("orders", perm=7)
    assert announced_topics(table, 6) == table
    assert {config.perm for config in announced_topics(table, 4).values()} == {4}


def test_producers_are_not_sent_to_queues_that_nobody_reads() -> None:
    table = {
        name: TopicConfig(name, read, write) for name, read, write in (("wide", 4, 8), ("even", 4, 4), ("less", 8, 4))
    }
    announced = announced_topics(table, 6)
    assert {name: (config.read_queue_nums, config.write_queue_nums) for name, config in announced.items()} == {
        "wide": (4, 4),
        "even": (4, 4),
        "less": (8, 4),
    }


def test_a_broker_registers_when_it_starts() -> None:
    broker = Broker()
    broker.service.startService()
    (request,) = broker.take(broker.accept())
    header = parse_header(RegisterBrokerRequest, request.ext_fields)
    assert request.code == REGISTER
    assert (header.broker_name, header.broker_addr, header.broker_id) == ("broker-a", "10.9.9.9:10911", 0)
    assert header.ha_server_addr == "10.9.9.9:10912"


def test_it_registers_again_every_period() -> None:
    broker = Broker(server_channel_max_idle_time_seconds=86_400)
    server = broker.started()
    assert broker.take(server, 29.9) == []
    for _ in range(3):
        (request,) = broker.take(server, 30)
        server.send(request.response(0))


def test_the_body_is_built_once_for_each_change_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[bytes] = []
    build = RegisterBrokerBody.build

    def counting(body: RegisterBrokerBody, compressed: bool) -> bytes:
        built.append(build(body, compressed))
        return built[-1]

    monkeypatch.setattr(RegisterBrokerBody, "build", counting)
    broker = Broker(server_channel_max_idle_time_seconds=86_400)
    server = broker.started()
    for _ in range(2):
        (request,) = broker.take(server, 30)
        assert request.body == built[0]
        server.send(request.response(0))
    broker.topics.add("bills")
    (request,) = broker.take(server)
    assert [request.body] == built[1:]


def test_topic_changes_register_at_once_and_once_a_turn() -> None:
    broker = Broker()
    server = broker.started()
    broker.topics.add("bills")
    broker.topics.add("refunds")
    (request,) = broker.take(server)
    told = RegisterBrokerBody.parse(request.body, False, 513)
    assert {"bills", "refunds"} <= set(told.topic_config_table)


def test_a_change_during_a_registration_is_registered_after_it() -> None:
    broker = Broker()
    broker.service.startService()
    server = broker.accept()
    (first,) = broker.take(server)
    broker.topics.add("bills")
    assert broker.take(server) == []
    server.send(first.response(0))
    (second,) = broker.take(server)
    assert "bills" in RegisterBrokerBody.parse(second.body, False, 513).topic_config_table


def test_an_unreachable_name_server_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    broker = Broker()
    broker.service.startService()
    for attempt in range(1, 6):
        assert broker.attempts == attempt
        broker.refuse()
        broker.reactor.advance(2.0 ** (attempt - 1))
        broker.reactor.advance(0)
    server = broker.accept()
    (request,) = broker.take(server)
    server.send(request.response(0))
    events = [record.message for record in caplog.records if record.name == "gateway.registration"]
    assert events == ["not registered", "registered"]


def test_a_refused_registration_is_tried_again() -> None:
    broker = Broker()
    broker.service.startService()
    server = broker.accept()
    (first,) = broker.take(server)
    server.send(first.response(ResponseCode.SYSTEM_ERROR, "register broker failed"))
    assert broker.take(server, 0.9) == []
    assert [request.code for request in broker.take(server, 0.1)] == [REGISTER]


def test_a_name_server_that_does_not_answer_is_asked_again() -> None:
    broker = Broker(register_broker_timeout_ms=6_000)
    broker.service.startService()
    server = broker.accept()
    broker.take(server)
    broker.take(server, 6)
    assert [request.code for request in broker.take(server, 1)] == [REGISTER]


def test_a_name_server_that_comes_back_is_told_again_soon() -> None:
    broker = Broker()
    broker.started().leave()
    broker.reactor.advance(1)
    again = broker.accept()
    (request,) = broker.take(again)
    assert request.code == REGISTER
    again.send(request.response(0))
    again.leave()
    broker.reactor.advance(1)
    assert broker.attempts == 3


def test_a_connection_lost_during_a_registration_is_a_failure_like_others() -> None:
    broker = Broker()
    server = broker.started()
    broker.topics.add("bills")
    broker.take(server)
    server.leave()
    broker.reactor.advance(1)
    assert [request.code for request in broker.take(broker.accept())] == [REGISTER]


def test_without_force_the_data_version_is_compared_first() -> None:
    broker = Broker(force_register=False)
    broker.service.startService()
    server = broker.accept()
    (question,) = broker.take(server)
    assert question.code == RequestCode.QUERY_DATA_VERSION
    assert DataVersion.parse(question.body) == DataVersion(counter=1)
    server.send(question.response(0, ext_fields=build_header(QueryDataVersionResponse(changed=False))))
    assert broker.take(server) == []
    (question,) = broker.take(server, 30)
    server.send(question.response(0, ext_fields=build_header(QueryDataVersionResponse(changed=True))))
    assert [request.code for request in broker.take(server)] == [REGISTER]


def test_a_name_server_that_cannot_compare_gets_everything() -> None:
    broker = Broker(force_register=False)
    broker.service.startService()
    server = broker.accept()
    (question,) = broker.take(server)
    server.send(question.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
    assert [request.code for request in broker.take(server)] == [REGISTER]


def test_a_malformed_comparison_is_a_failure_like_others(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(force_register=False)
    broker.service.startService()
    server = broker.accept()
    (question,) = broker.take(server)
    server.send(question.response(0))
    assert broker.take(server, 1)[0].code == RequestCode.QUERY_DATA_VERSION


def test_it_says_goodbye_when_it_stops() -> None:
    broker = Broker()
    server = broker.started()
    stopped: Deferred[None] = broker.service.stopService()
    (request,) = broker.take(server)
    header = parse_header(UnRegisterBrokerRequest, request.ext_fields)
    assert (request.code, header.broker_addr) == (UNREGISTER, "10.9.9.9:10911")
    server.send(request.response(0))
    assert stopped.called
    broker.topics.add("late")
    assert broker.take(server, 60) == []


def test_a_stop_does_not_wait_for_a_name_server_that_is_gone() -> None:
    broker = Broker()
    broker.started().leave()
    stopped = broker.service.stopService()
    broker.refuse()
    assert stopped.called
    assert not stopped.paused


def test_a_stop_between_a_change_and_its_registration_ends_it() -> None:
    broker = Broker()
    server = broker.started()
    broker.topics.add("bills")
    broker.service.stopService()
    assert [request.code for request in broker.take(server)] == [UNREGISTER]


def test_a_broker_that_was_never_registered_says_no_goodbye() -> None:
    broker = Broker()
    broker.service.startService()
    broker.refuse()
    assert broker.service.stopService().called
    assert broker.attempts == 1


def test_the_own_name_server_knows_the_broker_when_the_start_is_over() -> None:
    routes = RouteTable()
    broker = Broker(DirectRegistration(routes, lambda: 0))
    broker.service.startService()
    route = routes.route("orders", "172.17.0.2")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "172.17.0.2:10911"}
    broker.topics.add("bills")
    broker.reactor.advance(0)
    assert routes.route("bills", "172.17.0.2") is not None
    broker.service.stopService()
    assert routes.route("orders", "172.17.0.2") is None


def test_a_bug_in_one_link_does_not_end_the_registrations(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty:
        name = "faulty"
        attempts = 0
        lost: Callable[[], None]
        master: tuple[str, str] | None = None

        async def register(self, announcement: Announcement) -> str | None:
            self.attempts += 1
            raise KeyError("bug")

        async def unregister(self, announcement: Announcement) -> None:
            raise AssertionError("it was never registered")

        async def read_queues(self, topic: str) -> None:
            raise AssertionError("nobody asks")

        async def members(self, cluster: str, broker_name: str) -> Mapping[int, str]:
            raise AssertionError("nobody asks")

    link = Faulty()
    broker = Broker(link)
    broker.service.startService()
    broker.reactor.advance(1)
    assert link.attempts == 2
    assert "registration failed" in caplog.text


# -- the queues of a topic, asked for ----------------------------------------------------------------------------

ROUTE = TopicRouteData(
    queue_datas=[QueueData("broker-a", 4, 4, 6), QueueData("broker-b", 8, 8, 4), QueueData("broker-c", 8, 8, 2)]
)


def test_the_name_server_is_asked_for_the_queues_of_a_topic() -> None:
    broker = Broker()
    server = broker.started()
    found = outcome(broker.service.read_queues("orders"))
    (asked,) = broker.take(server)
    assert (asked.code, asked.ext_fields) == (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    server.send(asked.response(ResponseCode.SUCCESS, body=ROUTE.build(standard=True)))
    assert found == [{"broker-a": 4, "broker-b": 8}]


@pytest.mark.parametrize(("code", "body"), [(ResponseCode.TOPIC_NOT_EXIST, b""), (ResponseCode.SUCCESS, b"{")])
def test_a_name_server_that_cannot_say_leaves_the_question_open(code: int, body: bytes) -> None:
    broker = Broker()
    server = broker.started()
    found = outcome(broker.service.read_queues("orders"))
    (asked,) = broker.take(server)
    server.send(asked.response(code, body=body))
    assert found == [None]


def test_the_name_server_next_door_is_asked_first() -> None:
    routes = RouteTable()
    broker = Broker(DirectRegistration(routes, lambda: 0))
    broker.service.startService()
    topic = next(iter(broker.topics.table()))
    queues = broker.topics.table()[topic].read_queue_nums
    assert outcome(broker.service.read_queues(topic)) == [{broker.settings.broker_name: queues}]
    assert outcome(broker.service.read_queues("missing")) == [None]


# -- slaves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("advertised", "ha_port", "told"),
    [
        (Advertised(None, None), None, "10.0.0.5:10912"),
        (Advertised(None, None), 20_912, "10.0.0.5:20912"),
        (Advertised("mq.example.org", 30_911), None, "mq.example.org:30912"),
        (Advertised("mq.example.org", 30_911), 10_912, "mq.example.org:10912"),
    ],
)
def test_slaves_are_told_where_to_copy(advertised: Advertised, ha_port: int | None, told: str) -> None:
    assert announcement(advertised=advertised, ha_port=ha_port).ha_address("10.0.0.5") == told


def test_the_brokers_of_our_name_are_found_by_their_ids() -> None:
    broker = Broker()
    server = broker.started()
    found = outcome(broker.service.members())
    (asked,) = broker.take(server)
    assert asked.code == RequestCode.GET_BROKER_CLUSTER_INFO
    ours, others = ({0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, {0: "10.0.0.3:10911"})
    name = broker.settings.broker_name
    table = {name: BrokerData("c", name, ours), "other": BrokerData("c", "other", others)}
    server.send(asked.response(ResponseCode.SUCCESS, body=ClusterInfo(table, {"c": [name, "other"]}).build()))
    assert found == [ours]


def test_a_name_server_that_refuses_lists_nobody_and_one_that_is_silent_does_not_answer() -> None:
    broker = Broker()
    server = broker.started()
    found = outcome(broker.service.members())
    (asked,) = broker.take(server)
    server.send(asked.response(ResponseCode.NO_PERMISSION))
    assert found == [{}]
    silent = outcome(broker.service.members())
    broker.reactor.pump([1] * 60)
    assert silent == [None]


def test_the_name_server_next_door_lists_a_slave_that_registered_over_the_network() -> None:
    routes = RouteTable()
    broker = Broker(DirectRegistration(routes, lambda: 0))
    broker.service.startService()
    name = broker.settings.broker_name
    routes.register(registration("orders", broker_name=name, broker_id=1, address="10.0.0.2:10911"), 0)
    assert outcome(broker.service.members()) == [{0: "127.0.0.1:10911", 1: "10.0.0.2:10911"}]


def test_topics_whose_text_no_frame_holds_are_told_compressed() -> None:
    broker = Broker()
    long = {"note": "x" * 100_000}
    broker.topics._topics = {f"topic-{n}": TopicConfig(f"topic-{n}", extra=long) for n in range(200)}
    broker.service.startService()
    (told,) = broker.take(broker.accept())
    header = parse_header(RegisterBrokerRequest, told.ext_fields)
    assert header.compressed
    assert len(RegisterBrokerBody.parse(told.body, True, told.version).topic_config_table) == 200


def test_a_slave_learns_where_its_master_is_and_keeps_that_when_the_master_is_gone() -> None:
    broker = Broker(broker_id=1, register_name_server_period_ms=10_000)
    broker.service.startService()
    server = broker.accept()
    (first,) = broker.take(server)
    assert first.ext_fields["brokerId"] == "1"
    server.send(first.response(ResponseCode.SUCCESS))
    assert broker.service.master is None
    (second,) = broker.take(server, 10)
    server.send(second.response(ResponseCode.SUCCESS, ext_fields=build_header(MASTER)))
    assert broker.service.master == ("10.0.0.7:10911", "10.0.0.7:10912")
    (third,) = broker.take(server, 10)
    server.send(third.response(ResponseCode.SUCCESS))
    assert broker.service.master == ("10.0.0.7:10911", "10.0.0.7:10912")


def test_a_slave_beside_a_name_server_learns_where_its_master_is() -> None:
    routes = RouteTable()
    slave = Broker(DirectRegistration(routes, lambda: 0), broker_id=1)
    slave.service.startService()
    assert slave.service.master is None
    master = Registration(
        cluster="DefaultCluster",
        broker_name="broker-a",
        broker_id=0,
        address="10.0.0.7:10911",
        ha_address=AutoAddress(10912),
        topics=topics("orders", "bills"),
        data_version=DataVersion(),
    )
    assert routes.register(master, 0).refusal is None
    slave.topics.add("bills")
    slave.reactor.advance(0)
    assert slave.service.master == ("10.0.0.7:10911", "127.0.0.1:10912")
