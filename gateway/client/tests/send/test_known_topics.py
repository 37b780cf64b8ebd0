"""The topics a sender remembers; routes that change are tested with ``Producer``."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.errors import RouteNotFound
from gateway.client.send import known_topics
from gateway.client.send.known_topics import KnownTopics
from gateway.client.tests.connect.test_instance import instance_at
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.codes import RequestCode


def test_a_topic_is_learned_with_its_namespace_and_forgotten() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            topics = KnownTopics(instance, ProducerSettings(namesrv=broker.address, namespace="ns"), None)
            targets = await topics.learn("t")
            assert {queue.topic for queue in targets.public_queues} == {"t"}
            assert (topics.wire_topics, list(topics.targets)) == ({"ns%t": "t"}, ["t"])
            topics.forget("t")
            assert topics.targets == {}
            broker.unknown_topics = {"ns%u", "TBW102"}
            with pytest.raises(RouteNotFound):
                await topics.learn("u")

    run(test())


def test_sends_that_begin_together_take_turns_among_the_same_queues() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            topics = KnownTopics(instance, ProducerSettings(namesrv=broker.address), None)
            learned = await asyncio.gather(*(topics.learn("t") for _ in range(4)))
            assert all(targets is learned[0] for targets in learned)
            topics.forget("t")
            assert await topics.learn("t") is not learned[0]

    run(test())


def test_the_topics_it_remembers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_topics, "MAX_TOPICS", 2)

    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            topics = KnownTopics(instance, ProducerSettings(namesrv=broker.address), None)
            for topic in ("a", "b", "c"):
                await topics.learn(topic)
            assert topics.targets.keys() == topics.wire_topics.keys() == {"b", "c"}

    run(test())


def test_a_known_route_serves_while_the_name_servers_are_silent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(known_topics, "_REFRESH_PATIENCE", 0.01)

    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            topics = KnownTopics(instance, ProducerSettings(namesrv=broker.address), None)
            before = await topics.learn("t")
            broker.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: None)
            topics.forget("t")
            after = await topics.learn("t")  # long before the request itself runs out of time
            assert after.public_queues == before.public_queues
            assert "take their time" in caplog.text

    run(test())
