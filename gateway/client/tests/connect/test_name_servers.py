import random

import pytest

from gateway.client.connect.name_servers import NameServers
from gateway.client.connect.remoting import Remoting
from gateway.client.connect.settings import ClientSettings
from gateway.client.errors import BrokerError, ConfigurationError, ConnectError, NotANameServer
from gateway.client.tests.connect.test_remoting import remoting_with
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.codes import RequestCode, ResponseCode


def name_servers(remoting: Remoting, *addresses: str) -> NameServers:
    return NameServers(remoting, ClientSettings(namesrv=addresses, request_timeout=2.0), random.Random(1))


def test_one_is_asked_until_it_fails_and_then_the_next() -> None:
    async def test() -> None:
        async with ScriptedBroker() as first, ScriptedBroker() as second, remoting_with() as remoting:
            servers = name_servers(remoting, first.address, second.address)
            for _ in range(3):
                assert await servers.route_data("t") is not None
            used, other = (first, second) if first.requests else (second, first)
            assert (len(used.requests), len(other.requests)) == (3, 0)
            await used.stop()
            _, address = await servers.request(RequestCode.HEART_BEAT)
            assert address == other.address
            await used.start()

    run(test())


def test_when_all_fail_the_last_failure_is_told() -> None:
    async def test() -> None:
        async with ScriptedBroker() as gone:
            pass
        async with remoting_with() as remoting:
            with pytest.raises(ConnectError, match="namesrv"):
                await name_servers(remoting, gone.address).route_data("t")

    run(test())


def test_an_unknown_topic_has_no_route() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            broker.unknown_topics.add("t")
            assert await name_servers(remoting, broker.address).route_data("t") is None

    run(test())


def test_a_refusal_and_an_unreadable_route_are_broker_errors() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            servers = name_servers(remoting, broker.address)
            broker.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "out of order")
            with pytest.raises(BrokerError, match="out of order"):
                await servers.route_data("t")
            broker.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda request: request.response(0, body=b"<html>"))
            with pytest.raises(BrokerError, match="cannot be read"):
                await servers.route_data("t")

    run(test())


def test_without_an_address_there_is_nothing_to_ask() -> None:
    async def test() -> None:
        async with remoting_with() as remoting:
            with pytest.raises(ConfigurationError, match="NAMESRV_ADDR"):
                name_servers(remoting)

    run(test())


def test_point_16_a_broker_in_the_place_of_a_name_server_is_called_what_it_is() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, ScriptedBroker() as server, remoting_with() as remoting:
            broker.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "105?")
            with pytest.raises(
                NotANameServer, match=f"{broker.address} is not a name server: .* it is a broker"
            ) as told:
                await name_servers(remoting, broker.address).route_data("t")
            assert "Set 'namesrv' to the name server (port 9876 by default)" in str(told.value)
            assert "newer" not in str(told.value)
            for _ in range(3):
                route = await name_servers(remoting, broker.address, server.address).route_data("t")
                assert route is not None, "the other one is taken"

    run(test())
