"""What it costs to see that a queue is still the one that was read; what is seen is in ``test_micro_batches``."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
