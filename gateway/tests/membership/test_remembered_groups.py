"""The memory that groups and their retry topics take after the clients that made them have left."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import in_this_thread
from gateway.tests.membership.connected import Members
from wire.bodies.heartbeat import HeartbeatData

GROUPS = 400
ROUNDS = 10
MOST_BYTES = 1_000
"""The bytes that a group and its retry topic cost, with a name of ten characters: docs/limits.md says 0.9 KB."""
SLACK_BYTES = 40_000
"""The bytes that all rounds may leave: what the peers of these tests keep, and freed tuples that Python keeps."""


class Saving:
    """Does the writes of files when told to: a thread that is slower than the heartbeats."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Do this later."""
        self._waiting.append((work, done))

    def finish(self) -> None:
        """Do all that waits."""
        while self._waiting:
            work, done = self._waiting.pop(0)
            in_this_thread(work, done)


@pytest.fixture
def traced() -> Iterator[Callable[[], int]]:
    """Return a function that tells the bytes in use; the connections of these tests are cycles."""
    tracemalloc.start()

    def in_use() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    yield in_use
    tracemalloc.stop()


def _come_and_go(members: Members, saving: Saving, names: list[str]) -> None:
    """Connect a client with these groups, which subscribe to twenty topics each; it leaves, and all is saved."""
    groups = [
        {"groupName": name, "subscriptionDataSet": [{"topic": f"{name}-{number}"} for number in range(20)]}
        for name in names
    ]
    client = members.client("c")
    client.beats(HeartbeatData.from_json({"clientID": "c", "consumerDataSet": groups}))
    client.peer.leave()
    saving.finish()


def test_ten_rounds_of_the_same_groups_take_no_more_memory_than_one(tmp_path: Path, traced: Callable[[], int]) -> None:
    saving = Saving()
    members = Members(tmp_path, in_thread=saving.in_thread)
    taken = []
    for _ in range(ROUNDS + 1):
        _come_and_go(members, saving, [f"group-{number:04}" for number in range(GROUPS)])
        taken.append(traced())
    assert taken[-1] - taken[1] < SLACK_BYTES


def test_rounds_of_new_groups_take_what_a_group_and_its_retry_topic_cost(
    tmp_path: Path, traced: Callable[[], int]
) -> None:
    saving = Saving()
    members = Members(tmp_path, in_thread=saving.in_thread)
    taken = []
    for begin in range(ROUNDS + 1):
        _come_and_go(members, saving, [f"g-{begin:02}-{number:05}" for number in range(GROUPS)])
        taken.append(traced())
    assert len(members.groups.table()) == len(members.topics.table()) == (ROUNDS + 1) * GROUPS
    assert taken[-1] - taken[0] < ROUNDS * GROUPS * MOST_BYTES + SLACK_BYTES
