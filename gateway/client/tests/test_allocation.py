"""Tests of the allocation strategies: equal to Java's, queue by queue, and no queue twice or left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client.allocation import (
    AllocationStrategy,
    Averagely,
    AveragelyByCircle,
    Configured,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    java_text,
)
from gateway.client.errors import ConfigurationError
from gateway.client.message import MessageQueue


def _room_of_client(client_id: str) -> str:
    return "hz" if client_id.startswith("10.0") else "sh"


def _room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name.split("@")[0]


STRATEGIES: tuple[AllocationStrategy, ...] = (
    Averagely(),
    AveragelyByCircle(),
    ConsistentHash(),
    MachineRoom({"hz"}),
    MachineRoomNearby(Averagely(), _room_of_queue, _room_of_client),
)
# What rocketmq-client 5.5.0 gives each of so many clients ("queues/clients"), as positions in the sorted queues.
JAVA = json.loads((Path(__file__).parent / "vectors" / "allocations-5.5.0.json").read_text())


def queues(count: int) -> list[MessageQueue]:
    return sorted(MessageQueue("orders", "sh@b" if n % 2 else "hz@a", n // 2) for n in range(count))


def clients(count: int) -> list[str]:
    return sorted(f"{'10.1.0.' if n % 2 else '10.0.0.'}{n}@{100 + n}#{n}" for n in range(count))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_every_member_gets_what_java_would_give_it(strategy: AllocationStrategy) -> None:
    for case, expected in JAVA[strategy.name].items():
        queue_count, client_count = map(int, case.split("/"))
        ours, ids = queues(queue_count), clients(client_count)
        shares = [[ours.index(queue) for queue in strategy("g", each, ours, ids)] for each in ids]
        assert shares == expected, f"{strategy.name} {case}"


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, 12))
@pytest.mark.parametrize(
    "strategy", [each for each in STRATEGIES if each.name != "MACHINE_ROOM"], ids=lambda strategy: strategy.name
)
def test_no_queue_is_left_out_or_given_twice(strategy: AllocationStrategy, queue_count: int, client_count: int) -> None:
    ours, ids = queues(queue_count), clients(client_count)
    assert sorted(queue for each in ids for queue in strategy("g", each, ours, ids)) == ours


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_a_client_that_is_not_a_member_gets_nothing(strategy: AllocationStrategy) -> None:
    assert strategy("g", "stranger", queues(4), clients(2)) == []


def test_configured_queues_are_taken_if_they_exist() -> None:
    ours = queues(4)
    strategy = Configured([ours[2], MessageQueue("orders", "gone", 0)])
    assert strategy("g", "anybody", ours, []) == [ours[2]]


def test_a_room_takes_only_brokers_named_after_it() -> None:
    odd = [MessageQueue("t", name, 0) for name in ("hz", "hz@", "hz@a@b", "@a", "sh@a")]
    assert MachineRoom({"hz"})("g", "a", odd, ["a"]) == []


def test_a_resolver_without_an_answer_is_an_error() -> None:
    strategy = MachineRoomNearby(Averagely(), lambda _: "", _room_of_client)
    with pytest.raises(ConfigurationError, match="machine room"):
        strategy("g", "10.0.0.0", queues(1), ["10.0.0.0"])


def test_strategies_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="virtual_nodes"):
        ConsistentHash(0)
    with pytest.raises(ConfigurationError, match="rooms"):
        MachineRoom("hz")


def test_another_hash_may_be_used() -> None:
    strategy = ConsistentHash(1, len)
    assert len(java_text(queues(1)[0])) > len("a-0")
    assert strategy("g", "a", queues(3), ["a", "bb"]) == queues(3)  # beyond all places: the first one
