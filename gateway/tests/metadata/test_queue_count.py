"""The queues of all topics: what counts, who is refused at the limit, and who never is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import RequestRefused
from gateway.metadata.queue_count import QueueCount, queues_of
from gateway.metadata.topics import Topics
from gateway.settings import BrokerSettings
from wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from wire.codes import ResponseCode

LIMIT = 1_000
FULL = [TopicConfig(f"full{number}", 60, 1) for number in range(16)]
"""960 queues."""


def opened(directory: Path, limit: int = LIMIT) -> Topics:
    broker = BrokerSettings(broker_name="broker-a", queues_limit=limit)
    topics = Topics(path=directory / "config" / "topics.json", settings=broker, clock_ms=lambda: 1_000)
    topics.load()
    topics.create_system_topics()
    return topics


MAKERS: dict[str, Callable[[Topics], object]] = {
    "put": lambda topics: topics.put(TopicConfig("new", 41, 41)),
    "more read queues": lambda topics: topics.put(TopicConfig("full1", 101, 1)),
    "more write queues": lambda topics: topics.put(TopicConfig("full1", 1, 101)),
    "several": lambda topics: topics.put_all([TopicConfig(name, 21, 1) for name in "ab"]),
    "some that fit": lambda topics: topics.put_all([TopicConfig("a", 1, 1), TopicConfig("b", 40, 1)]),
    "ensure": lambda topics: topics.ensure("%RETRY%new", 41, 6, maker="192.0.2.1"),
    "readable": lambda topics: topics.ensure_readable("%DLQ%new", 41, 6),
    "like a default": lambda topics: topics.create_from_default("new", "default", 41, 0),
    "for a committed message": lambda topics: topics.find_or_create("new", 0, was_deleted=True),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_each_way_to_make_queues_is_refused_at_the_limit_and_changes_nothing(tmp_path: Path, maker: str) -> None:
    topics = opened(tmp_path)
    topics.put(TopicConfig("default", 50, 50, perm=7))
    topics.put_all(FULL[:15])
    if maker == "for a committed message":
        topics.put(TopicConfig("rest", 50, 1))
    else:
        topics.put(TopicConfig("rest", 10, 1))
    before = dict(topics.table())
    with pytest.raises(RequestRefused, match=r"the limit is 1000 \(gateway\.queuesLimit\)") as refused:
        MAKERS[maker](topics)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    assert topics.table() == before


def test_the_last_tenth_is_for_small_topics(tmp_path: Path) -> None:
    topics = opened(tmp_path)
    topics.put(TopicConfig("wide", 900, 900))
    for large in (TopicConfig("also wide", 65, 1), TopicConfig("wide", 901, 900)):
        with pytest.raises(RequestRefused, match="more do not fit"):
            topics.put(large)
    topics.put(TopicConfig("small", 64, 64))
    topics.put(TopicConfig("other", 36, 1))
    with pytest.raises(RequestRefused, match="have 1000 queues, 1 more do not fit"):
        topics.put(TopicConfig("one more", 1, 1))
    topics.delete("small")
    topics.put(TopicConfig("one more", 1, 1))


def test_a_topic_that_shrank_counts_as_before_until_it_is_gone(tmp_path: Path) -> None:
    topics = opened(tmp_path)
    topics.put(TopicConfig("wide", 900, 900))
    topics.put(TopicConfig("wide", 1, 1))
    with pytest.raises(RequestRefused):
        topics.put(TopicConfig("also wide", 900, 900))
    topics.put(TopicConfig("wide", 900, 8))
    topics.delete("wide")
    topics.put(TopicConfig("also wide", 900, 900))


def test_what_does_not_grow_is_never_refused_also_beyond_the_limit(tmp_path: Path) -> None:
    saved = opened(tmp_path, 10_000)
    saved.put(TopicConfig("wide", 2_000, 2_000))
    saved.persist_now()
    topics = opened(tmp_path)
    topics.put(TopicConfig("wide", 2_000, 1_000, perm=4))
    topics.put(TopicConfig("wide", 1_990, 1_000))
    with pytest.raises(RequestRefused, match="have 2000 queues, 1 more"):
        topics.put(TopicConfig("small", 1, 1))


def test_the_system_makes_its_topics_and_recovery_adopts_queues_beyond_the_limit(tmp_path: Path) -> None:
    broker = BrokerSettings(broker_name="broker-a", queues_limit=LIMIT)
    topics = Topics(path=tmp_path / "config" / "topics.json", settings=broker, clock_ms=lambda: 1_000)
    topics.put_all(FULL)
    topics.put(TopicConfig("rest", 40, 1))
    topics.create_system_topics()
    assert "BenchmarkTest" in topics.table()
    found = topics.adopt("lost", 300)
    assert found is not None
    assert topics.get("lost") == found
    assert topics.adopt("lost", 300) is found


def test_a_slave_takes_its_masters_topics_whatever_their_queues_and_counts_them(tmp_path: Path) -> None:
    topics = opened(tmp_path)
    topics.put_all(FULL)
    version = DataVersion(counter=7)
    topics.follow(TopicConfigTable({"huge": TopicConfig("huge", 65_536, 65_536)}, version))
    with pytest.raises(RequestRefused, match="have 65536 queues"):
        topics.put(TopicConfig("a", 1, 1))
    topics.follow(TopicConfigTable({"a": TopicConfig("a", 1, 1)}, version))
    topics.put(TopicConfig("b", 64, 64))


CONFIGS = st.builds(
    TopicConfig, st.sampled_from("abc"), st.integers(min_value=0, max_value=9), st.integers(min_value=0, max_value=9)
)


@settings(max_examples=200)
@given(st.lists(CONFIGS | st.sampled_from("abc")))
def test_the_total_is_the_sum_of_the_most_that_each_topic_had(steps: list[TopicConfig | str]) -> None:
    table: dict[str, TopicConfig] = {}
    had: dict[str, int] = {}
    count = QueueCount(table)
    for step in steps:
        if isinstance(step, str):
            count.gone(step)
            table.pop(step, None)
            had.pop(step, None)
        else:
            count.placed(step)
            table[step.topic_name] = step
            had[step.topic_name] = max(had.get(step.topic_name, 0), queues_of(step))
        assert count.total == sum(had.values())
