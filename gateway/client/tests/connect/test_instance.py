import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

import pytest

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Answer, Member
from gateway.client.connect.routes import TopicRoute
from gateway.client.connect.settings import ClientSettings
from gateway.client.errors import BrokerError, BrokerNotFound, ClientClosed, RouteNotFound
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand


class TestMember(Member):
    """A producer or consumer that writes down what it is told."""

    __test__ = False

    def __init__(self, group: str = "g", *, consumes: bool = False, topics: Collection[str] = ("t",)) -> None:
        self.group = group
        self.routes: list[TopicRoute] = []
        self._consumes = consumes
        self._topics = topics

    def producer_data(self) -> str | None:
        return None if self._consumes else self.group

    def consumer_data(self) -> ConsumerData | None:
        return ConsumerData(self.group) if self._consumes else None

    def topics(self) -> Collection[str]:
        return self._topics

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        self.routes.append(route)

    def answers(self) -> Mapping[int, Answer]:
        return {RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info}

    async def _running_info(self, command: RemotingCommand, address: str) -> RemotingCommand | None:
        return command.response(ResponseCode.SUCCESS, body=self.group.encode())


@asynccontextmanager
async def instance_at(broker: ScriptedBroker, **changes: object) -> AsyncIterator[ClientInstance]:
    settings = ClientSettings(namesrv=broker.address, **changes)  # type: ignore[arg-type]
    instance = ClientInstance(settings, random=random.Random(1))
    await instance.start()
    try:
        yield instance
    finally:
        await instance.close()


def test_nothing_is_connected_before_it_is_needed() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker):
            await asyncio.sleep(0)
            assert broker.connections == 0

    run(test())


def test_client_ids_are_unique_in_a_process_and_can_be_given() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as one, instance_at(broker) as other:
            assert one.client_id != other.client_id
            assert one.client_id.partition("@")[2].startswith(f"{os.getpid()}#")
            named = ClientSettings(namesrv=broker.address, client_ip="10.0.0.1", instance_name="mine", unit_name="u")
            assert ClientInstance(named).client_id == "10.0.0.1@mine@u"

    run(test())


def test_a_route_is_asked_for_once() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            routes = await asyncio.gather(*(instance.route("t") for _ in range(10)))
            assert len(broker.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
            assert await instance.route("t") is routes[0]
            assert instance.known_route("t") is routes[0]
            assert instance.known_route("u") is None
            await instance.route("t", refresh=True)
            assert len(broker.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2
            assert instance.address_of("broker-a") == broker.address
            assert instance.broker_addresses("broker-a") == {0: broker.address}
            assert instance.master_addresses() == {"broker-a": broker.address}

    run(test())


def test_an_unknown_topic_is_told_with_causes() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            broker.unknown_topics = {"t", "TBW102"}
            with pytest.raises(RouteNotFound, match="autoCreateTopicEnable") as caught:
                await instance.route("t")
            assert caught.value.name_servers == (broker.address,)
            with pytest.raises(RouteNotFound, match="TBW102"):
                await instance.route("t", template="TBW102")

    run(test())


def test_a_template_stands_for_a_topic_that_does_not_exist_yet() -> None:
    async def test() -> None:
        async with ScriptedBroker(queues=8) as broker, instance_at(broker) as instance:
            broker.unknown_topics = {"t"}
            route = await instance.route("t", template="TBW102", template_queues=4)
            assert len(route.publish_queues) == 4
            assert route.publish_queues[0].topic == "t"

    run(test())


def test_a_topic_that_name_servers_no_longer_know_is_told_and_its_route_kept() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            known = await instance.route("t")
            broker.unknown_topics.add("t")
            with pytest.raises(RouteNotFound):
                await instance.route("t", refresh=True)
            assert instance.known_route("t") is known, "they may have been restarted, and know nothing yet"

    run(test())


def test_members_are_told_of_routes_and_of_changes_only() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker, poll_name_server_interval=0.1) as instance:
            member = TestMember()
            instance.join(member)
            await broker.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, 3)
            assert len(member.routes) == 1
            broker.queues = 8
            await broker.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, 5)
            assert [len(route.publish_queues) for route in member.routes] == [4, 8]

    run(test())


def test_a_name_server_that_is_gone_leaves_the_routes_as_they_were() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker, poll_name_server_interval=0.1) as instance:
            instance.join(TestMember())
            route = await instance.route("t")
            broker.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR)
            await broker.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, 3)
            assert instance.known_route("t") is route

    run(test())


def test_brokers_of_a_new_route_get_a_heartbeat_at_once() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            instance.join(TestMember("producers"))
            instance.join(TestMember("consumers", consumes=True))
            await instance.route("t")
            (request,) = await broker.wait_for(RequestCode.HEART_BEAT)
            heartbeat = HeartbeatData.parse(request.body)
            assert heartbeat.client_id == instance.client_id
            assert heartbeat.producers == ("producers",)
            assert [consumer.group for consumer in heartbeat.consumers] == ["consumers"]

    run(test())


def test_heartbeats_go_on() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker, heartbeat_broker_interval=0.1) as instance:
            instance.join(TestMember())
            await instance.route("t")
            await broker.wait_for(RequestCode.HEART_BEAT, 3)
            assert instance.broker_versions[broker.address] > 232

    run(test())


def test_a_broker_that_knew_us_is_greeted_again_though_nobody_has_anything_to_ask_it() -> None:
    async def test() -> None:
        quick = {"reconnect_backoff_min": 0.01, "reconnect_backoff_max": 0.02}
        async with ScriptedBroker() as broker, instance_at(broker, **quick) as instance:
            instance.join(TestMember())
            await instance.route("t")
            await broker.wait_for(RequestCode.HEART_BEAT)
            while not instance.broker_versions:
                await asyncio.sleep(0)
            await broker.stop()
            while instance.remoting.open_connection(broker.address) is not None:
                await asyncio.sleep(0)
            await broker.start()
            await broker.wait_for(RequestCode.HEART_BEAT, 2)  # the next regular one is 30 s away

    run(test())


def test_a_refused_heartbeat_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            broker.answer(RequestCode.HEART_BEAT, ResponseCode.SYSTEM_ERROR, "no")
            instance.join(TestMember())
            await instance.route("t")
            await instance.heartbeat()
            assert instance.broker_versions == {}
            await broker.stop()
            await instance.heartbeat()
            await broker.start()

    with caplog.at_level(logging.WARNING):
        run(test())
    assert "was refused" in caplog.text
    assert "failed" in caplog.text


def test_who_leaves_says_so() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            async with instance_at(broker) as instance:
                instance.join(TestMember("producers"))
                consumer = TestMember("consumers", consumes=True)
                instance.join(consumer)
                await instance.route("t")
                await instance.heartbeat()
                await instance.leave(consumer)
                await instance.leave(consumer)
            left = [request.ext_fields for request in broker.asked(RequestCode.UNREGISTER_CLIENT)]
            assert left == [
                {"clientID": instance.client_id, "consumerGroup": "consumers"},
                {"clientID": instance.client_id, "producerGroup": "producers"},
            ]

    run(test())


def test_requests_of_brokers_reach_the_member_that_answers_them() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            instance.join(TestMember("members"))
            await instance.route("t")
            await instance.heartbeat()
            response = await broker.push(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO))
            assert response.body == b"members"
            response = await broker.push(RemotingCommand(4711))
            assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    run(test())


def test_an_unexpected_code_is_an_error_with_its_remark() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            await instance.route("t")
            broker.answer(RequestCode.GET_MAX_OFFSET, ResponseCode.SYSTEM_ERROR, "boom")
            with pytest.raises(BrokerError, match="boom"):
                await instance.ask("broker-a", RequestCode.GET_MAX_OFFSET)
            codes = (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
            answer = await instance.ask("broker-a", RequestCode.GET_MAX_OFFSET, expect=codes)
            assert answer.remark == "boom"
            with pytest.raises(BrokerNotFound, match="broker-z"):
                await instance.ask("broker-z", RequestCode.GET_MAX_OFFSET)

    run(test())


def test_background_work_is_cancelled_at_close_and_its_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("broken work")

    async def test() -> None:
        async with ScriptedBroker() as broker:
            async with instance_at(broker) as instance:
                await asyncio.gather(instance.spawn(fail(), name="work"), return_exceptions=True)
                forever = instance.spawn(asyncio.Event().wait(), name="forever")
            assert forever.cancelled()
            await instance.close()
            with pytest.raises(ClientClosed):
                await instance.route("u")
            with pytest.raises(ClientClosed):
                await instance.ask_address(broker.address, RequestCode.HEART_BEAT)

    run(test())
    assert "broken work" in caplog.text
