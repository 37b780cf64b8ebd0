"""The name server as a whole: start, stop, and what it answers to strangers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.nameserver.running import PORT, RunningNameServer, register
from gateway.tests.nameserver.test_direct import Broker
from gateway.tests.remoting.conversation import outcome
from wire.bodies.route import TopicRouteData
from wire.codes import RequestCode, ResponseCode
from wire.headers.name_server import GetRouteInfoRequest

IMPLEMENTED = {
    *(100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224),
    *(304, 311, 312, 313, 318, 319, 322, 327, 901, 904),
}


@pytest.fixture
def server(tmp_path: Path) -> RunningNameServer:
    return RunningNameServer(tmp_path)


def test_it_listens_where_the_settings_say(server: RunningNameServer) -> None:
    assert server.service.port == PORT
    assert server.reactor.tcpServers[0][3] == "127.0.0.1"


def test_it_answers_the_name_servers_codes_and_no_others(server: RunningNameServer) -> None:
    answered = {entry.code for entry in server.service.dispatch.entries()}
    assert answered == IMPLEMENTED
    answer = server.connect().ask(RequestCode.SEND_MESSAGE_V2)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 310 not supported: SEND_MESSAGE_V2"


@pytest.mark.parametrize("reached_at", ["127.0.0.1", "172.17.0.2"])
def test_a_broker_of_this_process_is_where_the_client_reached_us(server: RunningNameServer, reached_at: str) -> None:
    outcome(server.service.direct_registration().register(Broker()))
    answer = server.connect(reached_at=reached_at).ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="orders")
    )
    (broker,) = TopicRouteData.parse(answer.body).broker_datas
    assert broker.broker_addrs == {0: f"{reached_at}:10911"}


def test_a_broker_of_this_process_that_stops_registering_expires_too(server: RunningNameServer) -> None:
    outcome(server.service.direct_registration().register(Broker()))
    for _ in range(25):
        server.advance(5)
    answer = server.connect().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic="orders"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_stop_closes_everything(server: RunningNameServer) -> None:
    broker, client = server.connect(), server.connect()
    register(broker, "orders")
    stopped = server.service.stopService()
    assert stopped.called
    assert broker.channel.closed
    assert client.channel.closed
    assert server.reactor.getDelayedCalls() == []


def test_a_server_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    server = RunningNameServer(tmp_path)
    server.service.stopService()
    assert server.service.stopService().called
