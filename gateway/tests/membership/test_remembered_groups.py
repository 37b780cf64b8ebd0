"""The memory that groups and their retry topics take after the clients that made them have left."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

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


def _taken_by_rounds(directory: Path, name: str) -> tuple[list[int], int]:
    """Return the bytes in use after each round, and the number of groups then known.

    :param name: the name of each group, with places for the round and the number of the group in it.
    """
    saving = Saving()
    members = Members(directory, in_thread=saving.in_thread)
    taken = []
    tracemalloc.start()
    for begin in range(ROUNDS + 1):
        _come_and_go(members, saving, [name.format(begin, number) for number in range(GROUPS)])
        gc.collect()  # the connections of these tests are cycles
        taken.append(tracemalloc.get_traced_memory()[0])
    assert len(members.groups.table()) == len(members.topics.table())
    return taken, len(members.groups.table())


def taken_by_rounds(directory: Path, name: str) -> tuple[list[int], int]:
    """Do so in a process of its own: what earlier tests left in this one may grow meanwhile."""
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        return alone.submit(_taken_by_rounds, directory, name).result()


def test_ten_rounds_of_the_same_groups_take_no_more_memory_than_one(tmp_path: Path) -> None:
    taken, known = taken_by_rounds(tmp_path, "group-{1:04}")
    assert known == GROUPS
    assert taken[-1] - taken[1] < SLACK_BYTES


def test_rounds_of_new_groups_take_what_a_group_and_its_retry_topic_cost(tmp_path: Path) -> None:
    taken, known = taken_by_rounds(tmp_path, "g-{0:02}-{1:05}")
    assert known == (ROUNDS + 1) * GROUPS
    assert taken[-1] - taken[0] < ROUNDS * GROUPS * MOST_BYTES + SLACK_BYTES
