"""Both ends of one connection joined in memory: every cut of the bytes, a lost connection at each, and bad peers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gateway.tests.replication.auto_switch.test_group import equal_logs
from gateway.tests.replication.auto_switch.world import Group
from wire.disk.epoch_file import EpochEntry
from wire.replication.auto_switch import Greeting, build_answer, build_greeting, build_part_head, build_progress


def run_all(group: Group) -> None:
    for member in group.members.values():
        member.executor.run()


def carry_bytes(group: Group, count: int, piece: int) -> int:
    """Carry so many bytes in pieces, both ways in turn; return how many there were."""
    carried = 0
    while carried < count:
        run_all(group)
        group.accept()
        while 2 not in group.connections:
            group.advance(6)
            run_all(group)
            group.accept()
        connection = group.connections[2]
        before = carried
        for side in (0, 1):
            waiting = len(connection.under_way[side]) + len(connection.wires[side].value())  # type: ignore[no-untyped-call]
            part = min(piece, count - carried, waiting)
            if part:
                connection.carry(side, part)
                carried += part
        if carried == before:
            break
    run_all(group)
    return carried


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_new_member_gets_everything_in_any_pieces(tmp_path: Path, piece: int) -> None:
    group = Group(tmp_path, 3)
    for _ in range(4):
        group.send()
    carry_bytes(group, 1 << 20, piece)
    second = group.members[2]
    assert second.store.durable_end == group.members[1].store.durable_end > 0
    group.heal()
    equal_logs(group)


def test_a_connection_lost_after_each_byte_is_made_again_and_goes_on(tmp_path: Path) -> None:
    group = Group(tmp_path, 3)
    group.send()
    run_all(group)
    total = 16 + 32 + 12 + 36 + group.members[1].store.durable_end + 12
    for count in range(total + 1):
        if count % 100 == 99:
            group.send()
        carry_bytes(group, count, 1 << 20)
        if 2 in group.connections:
            group.connections.pop(2).lose()
    assert not group.members[2].cuts
    group.heal()
    equal_logs(group)


@pytest.mark.parametrize("seed", range(3))
def test_members_that_differ_anywhere_are_cut_where_they_do(tmp_path: Path, seed: int) -> None:
    """Two logs are equal up to a random place, and epochs say nothing about it."""
    random = Random(seed)
    group = Group(tmp_path, seed)
    first, second = group.members.values()
    for _ in range(random.randrange(1, 40)):
        group.send()
    group.heal()
    equal_end = second.store.durable_end
    group.connections.pop(2).lose()
    for _ in range(random.randrange(1, 40)):
        group.send()
    run_all(group)
    end = first.store.durable_end
    first.kill()
    group.controller.elect(2)
    second.kill()
    second.begin()
    for _ in range(random.randrange(0, 40)):
        group.send()
    run_all(group)
    epochs = second.side_of_master.epochs
    assert epochs is not None
    epochs.keep(epochs.current.without_from(equal_end))  # as Apache RocketMQ's master may leave it
    first.begin()
    group.heal()

    assert first.cuts == [(equal_end, end)]
    equal_logs(group)


@pytest.mark.parametrize(
    "said",
    [
        [build_greeting(Greeting(9)), build_progress(0)],
        [build_progress(0)],
        [build_greeting(Greeting(2)) + build_progress(0)],
        [build_greeting(Greeting(2)), build_greeting(Greeting(3))],
        [build_greeting(Greeting(2)), build_progress(1 << 40)],
        [build_greeting(Greeting(2)), build_progress(0), build_greeting(Greeting(2))],
        [b"GET / HTTP/1.1\r\n\r\n"],
        [bytes(8)],
    ],
)
def test_a_peer_that_is_no_member_is_closed_and_counts_for_nothing(tmp_path: Path, said: list[bytes]) -> None:
    group = Group(tmp_path, 1)
    group.accept()
    connection = group.connections[2]
    group.members[1].executor.run()
    for words in said:
        connection.ends[1].dataReceived(words)
        group.members[1].executor.run()
    assert connection.wires[1].aborted
    assert group.controller.in_sync == {1}
    assert group.master is not None
    assert group.master.role is not None
    assert group.master.role.state(0).in_sync_slave_nums == 0


FIRST = EpochEntry(1, 0)


@pytest.mark.parametrize(
    "said",
    [
        build_part_head(0, 0, FIRST, 0),
        build_answer(0, [FIRST]) + build_answer(0, [FIRST, EpochEntry(2, 5)]),
        build_answer(0, [FIRST]) + build_part_head(5, 0, FIRST, 0),
        build_answer(0, [FIRST]) + build_part_head(0, 100, FIRST, 0) + bytes(100),
        b"HTTP/1.1 400 Bad Request\r\n\r\n........",
    ],
)
def test_a_master_that_says_nonsense_is_left_and_changes_nothing(tmp_path: Path, said: bytes) -> None:
    group = Group(tmp_path, 1)
    group.accept()
    second, connection = group.members[2], group.connections[2]
    for position in range(len(said)):
        connection.ends[0].dataReceived(said[position : position + 1])
        second.executor.run()
    assert connection.wires[0].aborted
    assert second.store.max_commit_log_offset == 0
