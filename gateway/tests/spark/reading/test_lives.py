"""The cost of seeing that a queue is still the one that was read; ``test_micro_batches`` tests the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.client.message_queue import MessageQueue
from gateway.spark.offsets import Checkpoint, Life
from gateway.spark.reading.lives import QUIET_LOOK_S, Lives
from gateway.tests.spark.pretend_cluster import PretendCluster, queue


@pytest.fixture
def cluster() -> PretendCluster:
    """Ten messages in queue 0, none in queue 1."""
    found = PretendCluster({queue(0): [], queue(1): []})
    found.fill(queue(0), 10)
    return found


def test_one_question_goes_out_for_queues_with_news_and_none_for_quiet_ones(cluster: PretendCluster) -> None:
    now = 100.0
    lives = Lives(cluster, lambda: now)
    start = Checkpoint(offsets={queue(0): 10, queue(1): 0})
    start = replace(start, lives=lives.look(start, start.offsets)[0])
    assert start.lives == {queue(0): Life(0, 0)}
    cluster.questions = 0
    assert lives.look(start, start.offsets) == (start.lives, frozenset())
    assert cluster.questions == 0
    assert lives.look(start, {queue(0): 12, queue(1): 0}) == (start.lives, frozenset())
    assert cluster.questions == 1
    now += QUIET_LOOK_S
    assert lives.look(start, start.offsets) == (start.lives, frozenset())
    assert cluster.questions == 2


def test_of_many_queues_with_news_one_tells_for_its_topic_at_a_broker() -> None:
    asked: list[int] = []

    class Counted(PretendCluster):
        def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
            asked.append(len(queues))
            return super().first_stored(queues)

    queues = [queue(number) for number in range(50)] + [queue(number, broker_name="broker-b") for number in range(50)]
    cluster = Counted({name: [] for name in queues})
    for name in queues:
        cluster.fill(name, 3)
    lives = Lives(cluster, lambda: 100.0)
    start = Checkpoint(offsets=dict.fromkeys(queues, 1))
    ends = cluster.ends(queues)
    start = replace(start, lives=lives.look(start, ends)[0])
    asked.clear()
    assert lives.look(start, ends) == (start.lives, frozenset())
    assert asked == [2]
    for name in queues[:50]:
        cluster.make_again(name, 3)
    asked.clear()
    assert lives.look(start, ends)[1] == frozenset(queues[:50])
    assert asked[:2] == [2, 50]
