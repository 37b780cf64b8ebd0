"""The order in which a pop looks at queues and retry topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.requests.pop.pop_sources import PopSources
from gateway.metadata.groups import Groups
from gateway.metadata.topics import Topics
from gateway.metadata.unread_queues import UnreadQueues
from gateway.settings import Settings
from gateway.tests.broker.popping import RETRY_TOPIC, popping
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig

PRIORITIES = TopicConfig("orders", 3, 3, 6, attributes={"message.type": "PRIORITY"})


def order_of(
    directory: Path,
    topic: TopicConfig,
    *,
    chance: int = 0,
    order: bool = False,
    factor: str | None = None,
    highest_first: bool = True,
    priority_retry_probability: int = 0,
) -> list[tuple[str, int]]:
    settings = Settings()
    topics = Topics(path=directory / "topics.json", settings=settings, clock_ms=lambda: 0)
    groups = Groups(path=directory / "groups.json", settings=settings, clock_ms=lambda: 0)
    topics.put_all([topic, TopicConfig(RETRY_TOPIC, 1, 1, 6)])
    groups.put(SubscriptionGroupConfig("group", attributes={} if factor is None else {"priority.factor": factor}))
    wanted = Settings(
        pop_from_retry_probability=20,
        pop_from_retry_probability_for_priority=priority_retry_probability,
        priority_order_asc=highest_first,
        enable_retry_topic_v2=False,
        retrieve_message_from_pop_retry_topic_v1=True,
    )
    sources = PopSources(topics, groups, wanted, lambda _: chance, UnreadQueues())
    return [(source.topic, source.queue_id) for source in sources.of(popping(order=order), [])]


def queues(*numbers: int) -> list[tuple[str, int]]:
    return [("orders", number) for number in numbers]


RETRIES = [(RETRY_TOPIC, 0)]


@pytest.mark.parametrize(
    ("chance", "expected"),
    [(0, RETRIES + queues(0, 1, 2)), (19, RETRIES + queues(1, 2, 0)), (20, queues(2, 0, 1) + RETRIES)],
)
def test_queues_take_turns_and_now_and_then_retries_come_first(
    tmp_path: Path, chance: int, expected: list[tuple[str, int]]
) -> None:
    assert order_of(tmp_path, TopicConfig("orders", 3, 3, 6), chance=chance) == expected


def test_the_most_urgent_queue_comes_first_and_retries_last(tmp_path: Path) -> None:
    assert order_of(tmp_path, PRIORITIES, chance=99) == queues(2, 1, 0) + RETRIES
    assert order_of(tmp_path, PRIORITIES, highest_first=False) == queues(0, 1, 2) + RETRIES
    assert order_of(tmp_path, PRIORITIES, priority_retry_probability=100) == RETRIES + queues(2, 1, 0)


def test_a_groups_factor_lets_the_others_have_their_turn(tmp_path: Path) -> None:
    assert order_of(tmp_path, PRIORITIES, chance=49, factor="50") == queues(2, 1, 0) + RETRIES
    assert order_of(tmp_path, PRIORITIES, chance=50, factor="50") == queues(2, 0, 1) + RETRIES


def test_ordered_pops_know_no_priorities(tmp_path: Path) -> None:
    assert order_of(tmp_path, PRIORITIES, chance=1, order=True) == queues(1, 2, 0)
