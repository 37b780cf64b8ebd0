"""Tests of keeping queues in step with the group."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from gateway.client.allocation import Averagely
from gateway.client.connect import member
from gateway.client.connect.instance import ClientInstance
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.settings.consumer_settings import ConsumerSettings
from gateway.client.consume.sharing import rebalancing
from gateway.client.consume.sharing.rebalancing import (
    RETRY_TOPIC_LOOKS,
    QueueChanges,
    QueueOwner,
    QueueState,
    Rebalancing,
    changes,
    share_of,
)
from gateway.client.errors import ConfigurationError
from gateway.client.message import MessageQueue
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run
from wire.bodies.heartbeat import ConsumerData
from wire.codes import RequestCode, ResponseCode


class Member(member.Member):
    """A consumer as far as rebalancing needs one."""

    group = "g"

    def __init__(self, broker: ConsumingBroker, *topics: str, **changes: Any) -> None:
        self.wanted = list(topics)
        self.refused: set[MessageQueue] = set()
        self.ended: list[MessageQueue] = []
        settings = ConsumerSettings(namesrv=broker.address, **changes)
        self.instance = ClientInstance(settings)
        self.instance.join(self)
        self.rebalancing = Rebalancing(self.instance, "g", settings, QueueOwner(self.topics, self._take, self._give_up))

    def consumer_data(self) -> ConsumerData:
        return ConsumerData("g")

    def topics(self) -> Collection[str]:
        return self.wanted

    async def _take(self, queue: MessageQueue) -> ProcessQueue | None:
        now = asyncio.get_running_loop().time()
        return None if queue in self.refused else ProcessQueue(queue, 0, now=now)

    async def _give_up(self, states: Collection[QueueState]) -> None:
        assert all(isinstance(state, ProcessQueue) and state.dropped for state in states)
        self.ended += [state.queue for state in states]


def test_a_queue_that_cannot_be_had_now_is_asked_for_again() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=2) as broker:
            member = Member(broker, "t")
            member.refused = {broker.queue("t", 1)}
            assert not await member.rebalancing.rebalance()
            assert set(member.rebalancing.assigned) == {broker.queue("t", 0)}
            member.refused.clear()
            assert await member.rebalancing.rebalance()
            assert set(member.rebalancing.assigned) == {broker.queue("t", 0), broker.queue("t", 1)}
            member.wanted.clear()
            assert await member.rebalancing.rebalance()
            assert len(member.ended) == 2
            await member.instance.close()

    run(scenario())


def test_a_queue_whose_pulling_has_stopped_is_taken_anew() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            member = Member(broker, "t")
            await member.rebalancing.rebalance()
            (old,) = member.rebalancing.assigned.values()
            assert isinstance(old, ProcessQueue)
            old.pulled_at -= 1000
            old.paused = True
            await member.rebalancing.rebalance()
            assert list(member.rebalancing.assigned.values()) == [old], "it is paused, not stopped"
            old.paused = False
            await member.rebalancing.rebalance()
            (new,) = member.rebalancing.assigned.values()
            assert new is not old
            await member.rebalancing.drop_all()
            assert member.rebalancing.assigned == {}
            await member.instance.close()

    run(scenario())


def test_a_broker_that_does_not_list_this_client_changes_nothing() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            member = Member(broker, "t")
            broker.answer(RequestCode.HEART_BEAT, ResponseCode.SYSTEM_ERROR, "not now")
            assert not await member.rebalancing.rebalance()
            broker.other_members = ["another"]
            assert not await member.rebalancing.rebalance()
            broker.answer(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_BUSY)
            assert not await member.rebalancing.rebalance()
            assert member.rebalancing.assigned == {}
            await member.instance.close()

    run(scenario())


def test_a_missing_topic_is_looked_for_and_a_missing_retry_topic_not_for_ever() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.unknown_topics = {"t", "%RETRY%g"}
            member = Member(broker, "t")
            assert not await member.rebalancing.rebalance()
            member.wanted = ["%RETRY%g"]
            looks = [await member.rebalancing.rebalance() for _ in range(RETRY_TOPIC_LOOKS + 1)]
            assert looks == [False] * RETRY_TOPIC_LOOKS + [True]
            await member.instance.close()

    run(scenario())


def test_it_ends_when_it_is_woken_in_the_moment_of_the_end() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            member = Member(broker, "t")
            running = asyncio.ensure_future(member.rebalancing.run())
            while not member.rebalancing.assigned:
                await asyncio.sleep(0.01)
            member.rebalancing.wake()
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running], timeout=2)
            assert running.cancelled(), "nothing swallows the cancellation"
            await member.instance.close()

    run(scenario())


def test_an_allocation_that_raises_is_logged_and_asked_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "RETRY_S", 0.01)

    class Broken:
        name = "BROKEN"
        calls = 0

        def __call__(self, *_: object) -> list[MessageQueue]:
            self.calls += 1
            raise KeyError("rack 7")

    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broken = Broken()
            member = Member(broker, "t", allocation=broken)
            running = asyncio.create_task(member.rebalancing.run())
            await until(lambda: broken.calls > 1)
            running.cancel()
            await member.instance.close()

    run(scenario())
    assert "rebalancing failed" in caplog.text
    assert "KeyError: 'rack 7'" in caplog.text


QUEUES = [MessageQueue("t", "a", number) for number in range(4)]


def test_queues_and_members_are_sorted_before_they_are_shared() -> None:
    assert share_of(Averagely(), "g", "b", QUEUES[::-1], ["c", "b", "a"]) == (QUEUES[2],)


def test_a_client_that_is_not_listed_and_a_topic_without_queues_share_nothing() -> None:
    assert share_of(Averagely(), "g", "z", QUEUES, ["a"]) == ()
    assert share_of(Averagely(), "g", "a", [], ["a"]) == ()


def test_a_strategy_that_invents_queues_is_an_error() -> None:
    class Inventive:
        name = "INVENTIVE"

        def __call__(
            self, _group: str, _client: str, _queues: Sequence[MessageQueue], _clients: Sequence[str], /
        ) -> list[MessageQueue]:
            return [MessageQueue("t", "elsewhere", 0)]

    with pytest.raises(ConfigurationError, match="INVENTIVE"):
        share_of(Inventive(), "g", "a", QUEUES, ["a"])


def test_the_difference_says_what_to_give_up_and_what_to_take() -> None:
    plan = changes(QUEUES[:2], QUEUES[1:3])
    assert plan == QueueChanges((QUEUES[0],), (QUEUES[2],))
    assert plan
    assert not changes(QUEUES, QUEUES)
