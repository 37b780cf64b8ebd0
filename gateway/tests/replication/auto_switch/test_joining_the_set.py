"""Members that lack a part of the log: they join the set when they have everything, and nothing keeps them from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.replication.slave import intake
from gateway.tests.replication.auto_switch.test_group import assert_acknowledged_stays, equal_logs, switch
from gateway.tests.replication.auto_switch.world import Group, Member
from gateway.tests.replication.test_pair import log_of
from gateway.tests.store.small_store import LOG_FILE_BYTES, SMALL, Executor, log_file, message, small_store
from wire.message.record import build_blank


def turn(group: Group, *, count: int, seconds: float = 0.1) -> None:
    """Let time pass, and carry so many bytes each way."""
    for member in group.members.values():
        if member.is_alive:
            member.executor.run()
    for side in (0, 1):
        group.carry(count, side)
    group.ask(is_lost=False)
    group.advance(seconds)


def turn_until(group: Group, is_done: Callable[[], bool], *, count: int, most: int = 1_000) -> None:
    for _ in range(most):
        if is_done():
            return
        turn(group, count=count)
    raise AssertionError("not done")


def fill(directory: Path, count: int) -> None:
    """Store what a broker without a controller acknowledged."""
    executor = Executor()
    store = small_store(directory, replace(SMALL), soon=executor.soon, in_thread=executor.in_thread)
    store.open()
    for number in range(count):
        store.append(message(b"%d" % number, topic="A"), lambda _: None)
        executor.run()
    store.close()
    executor.run()


def begin_empty(member: Member) -> None:
    """Start a dead member with a new disk."""
    member.lives += 1
    member.directory = member.group.root / f"{member.id}-empty"
    member.begin()


def held_bytes(member: Member) -> int:
    stage = member.side._stage
    assert stage is not None
    return sum(batch.size for batch in stage._held)


def delete_topic(member: Member, topic: str) -> None:
    """Delete a topic; the next message makes it again."""
    member.store.delete_topic(topic)
    member.executor.run()


@pytest.mark.parametrize("min_in_sync", [1, 2])
def test_the_second_member_of_a_group_that_begins_with_messages_joins_when_it_has_them(
    tmp_path: Path, min_in_sync: int
) -> None:
    fill(tmp_path / "1-0", 30)
    group = Group(tmp_path, 1, min_in_sync=min_in_sync)
    first, second = group.members.values()
    first.executor.run()
    before = log_of(first.store)
    most = 0

    def has_joined() -> bool:
        nonlocal most
        most = max(most, held_bytes(second))
        return 2 in group.controller.in_sync

    turn_until(group, has_joined, count=20)
    assert second.store.durable_end == len(before)
    assert most < len(before) / 10, "what the master shows is shown at once"
    switch(group, first, second)
    first.begin()
    group.settle(30)
    assert equal_logs(group) == before
    assert first.cuts == []


def test_a_member_that_lacks_acknowledged_messages_does_not_join_after_a_start_in_the_same_epoch(
    tmp_path: Path,
) -> None:
    """The controllers were silent, and the third member connects before the second."""
    group = Group(tmp_path, 3, count=3, min_in_sync=2)
    first, second, third = group.members.values()
    group.settle(20)
    third.kill()
    group.settle(20)
    for _ in range(10):
        group.send()
        group.settle(2)
    assert len(group.acknowledged) == 10
    first.kill()
    first.begin()
    group.connections.clear()
    second.kill()
    third.begin()
    for _ in range(40):
        turn(group, count=20)
        assert 3 not in group.controller.in_sync or third.store.durable_end == first.store.durable_end
    turn_until(group, lambda: 3 in group.controller.in_sync, count=500)
    switch(group, first, third)
    group.send()
    group.heal()
    assert_acknowledged_stays(group)


def test_a_filler_at_the_end_of_the_log_keeps_nobody_out(tmp_path: Path) -> None:
    """A slave stores it with the record that follows, and a set that is too small takes none."""
    fill(tmp_path / "1-0", 3)
    end = small_store(tmp_path / "1-0", replace(SMALL))
    end.open()
    record_end = end.max_commit_log_offset
    end.close()
    with log_file(tmp_path / "1-0").open("r+b") as stream:
        stream.seek(record_end)
        stream.write(build_blank(LOG_FILE_BYTES - record_end))
    (tmp_path / "1-0" / "abort").touch()
    group = Group(tmp_path, 1, min_in_sync=2)
    first, second = group.members.values()
    group.settle(20)
    assert first.store.durable_end == LOG_FILE_BYTES
    assert second.store.durable_end == record_end
    assert group.controller.in_sync == {1, 2}
    group.settle(60)
    assert group.controller.set_epoch == 2, "it does not leave as one that is behind"
    group.send()
    group.settle(10)
    assert len(group.acknowledged) == 1
    assert_acknowledged_stays(group)


@pytest.mark.parametrize("is_made_again", [False, True])
def test_an_empty_member_of_a_master_alone_gets_everything_and_holds_little(
    tmp_path: Path, is_made_again: bool
) -> None:
    """With ``minInSyncReplicas`` 2 the master takes nothing until the other disk is replaced."""
    group = Group(tmp_path, 1, min_in_sync=2)
    first, second = group.members.values()
    group.settle(15)
    for number in range(40):
        group.send()
        group.settle(1)
        if is_made_again and number == 20:
            delete_topic(first, "A")
            delete_topic(second, "A")
    group.settle(5)
    switch(group, first, second)
    begin_empty(first)
    group.connections.clear()
    most = 0
    for _ in range(400):
        turn(group, count=500, seconds=1)
        most = max(most, held_bytes(first))
    assert group.controller.in_sync == {1, 2}
    assert most < second.store.durable_end / 10
    assert_acknowledged_stays(group)


def test_a_master_alone_shows_what_waits_only_when_another_member_has_it_and_the_copy_goes_on(tmp_path: Path) -> None:
    """It restarts in its epoch with an end that nobody else had, in which a topic begins again."""
    group = Group(tmp_path, 1, min_in_sync=2)
    first, second = group.members.values()
    group.settle(15)
    for _ in range(5):
        group.send()
        group.settle(1)
    shown = first.store.stored_end
    second.kill()
    for number in range(20):
        first.store.append(message(b"%d" % number, topic="AB"[number % 2]), lambda _: None)
        first.executor.run()
        if number == 9:
            delete_topic(first, "A")
    group.settle(1)
    assert group.controller.in_sync == {1}
    first.kill()
    first.begin()
    assert first.store.hidden_from == shown
    begin_empty(second)
    turns = 0
    while 2 not in group.controller.in_sync and turns < 100:
        assert first.store.hidden_from == shown, "it is at one place only"
        turn(group, count=500)
        turns += 1
    group.settle(5)
    assert first.store.hidden_from is None
    assert log_of(second.store) == log_of(first.store)
    assert second.store.stored_end == second.store.durable_end


def delete_sent_topic(group: Group) -> None:
    """Send ten messages to topic A, and delete it at the master; slaves do when they copy the tables."""
    group.settle(20)
    for number in range(10):
        group.members[1].store.append(message(b"%d" % number, topic="A"), lambda _: None)
        group.settle(1)
    delete_topic(group.members[1], "A")


@pytest.mark.parametrize("count", [2, 3])
def test_a_topic_made_again_in_a_healthy_group_is_acknowledged_in_a_moment(tmp_path: Path, count: int) -> None:
    group = Group(tmp_path, 1, count=count, min_in_sync=2)
    delete_sent_topic(group)
    told: list[object] = []
    for number in range(5):
        group.members[1].store.append(message(b"again %d" % number, topic="A"), told.append)
    for _ in range(15):
        turn(group, count=1 << 20)
    assert len(told) == 5
    equal_logs(group)


def test_what_comes_behind_a_topic_made_again_does_not_keep_the_slave_from_hearing_its_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is under way than a slave holds while its disk is busy."""
    monkeypatch.setattr(intake, "PAUSE_BYTES", 1_000)
    told: list[object] = []
    group = waiting_for_the_master(tmp_path, told)
    first, second = group.members.values()
    turn_until(group, lambda: len(told) == 30, count=1 << 20, most=40)
    group.settle(10)
    assert second.store.durable_end == first.store.durable_end
    equal_logs(group)


def test_a_slave_whose_disk_was_busy_reads_on_when_it_waits_for_its_master_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "PAUSE_BYTES", 1_000)
    group = Group(tmp_path, 1, min_in_sync=2)
    first, second = group.members.values()
    group.settle(20)
    first.store.append(message(b"old", topic="A"), lambda _: None)
    group.settle(5)
    delete_topic(first, "A")
    told: list[object] = []

    def send(topics: str) -> int:
        for topic in topics:
            first.store.append(message(b"x" * 300, topic=topic), told.append)
        first.executor.run()
        group.carry(1 << 20, 1)  # no report comes back yet
        return first.store.durable_end

    end = send("B")
    send("BA")
    while second.store.max_commit_log_offset <= end:
        second.executor.run_turn()
        if second.store.max_commit_log_offset <= end:
            second.executor.work()()
    assert second.store.durable_end == end, "the second one is on its way"
    send("BBBBB")
    assert group.connections[2].wires[0].producerState == "paused"
    turn_until(group, lambda: len(told) == 8, count=1 << 20, most=40)
    group.settle(5)
    equal_logs(group)


def waiting_for_the_master(tmp_path: Path, told: list[object], most: int = 30) -> Group:
    """Return a group whose slave stands at a topic that was made again, of which up to ``most`` messages came."""
    group = Group(tmp_path, 1, min_in_sync=2)
    first, second = group.members.values()
    delete_sent_topic(group)
    connection = group.connections[2]
    for number in range(most):
        first.store.append(message(b"%d" % number + b"x" * 300, topic="BA"[number % 2]), told.append)
        first.executor.run()
        if group.connections.get(2) is connection:
            group.carry(1 << 20, 1)  # no report comes back yet
        second.executor.run()
    assert not told
    return group


def test_a_slave_that_waits_for_its_master_and_loses_it_connects_again(tmp_path: Path) -> None:
    told: list[object] = []
    group = waiting_for_the_master(tmp_path, told)
    group.lose(group.members[2])
    turn_until(group, lambda: len(told) == 30, count=1 << 20, most=200)
    group.settle(10)
    equal_logs(group)


def test_a_slave_that_waits_for_its_master_holds_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MAX_HELD_BYTES", 5_000)
    told: list[object] = []
    group = waiting_for_the_master(tmp_path, told)
    assert 2 not in group.connections, "the slave closed the connection"
    turn_until(group, lambda: len(told) == 30, count=1 << 20, most=400)
    group.settle(10)
    equal_logs(group)
