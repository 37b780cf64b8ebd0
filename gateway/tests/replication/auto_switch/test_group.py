"""Groups whose master changes: what was acknowledged stays, what differs is found and cut, and logs are equal after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.broker.requests.sending.put_answers import ANSWER_OF
from gateway.replication.epoch_file import NAME, EpochFile
from gateway.replication.epochs import EpochTooOld
from gateway.settings.store import FlushDiskType
from gateway.store.put_result import PutStatus
from gateway.tests.replication.auto_switch.world import Controller, Group, Member
from gateway.tests.replication.test_pair import log_of
from gateway.tests.store.durability.test_copying import units
from gateway.tests.store.small_store import SMALL
from wire.codes import ResponseCode
from wire.message.record import parse_record

STEPS = 500


def equal_logs(group: Group) -> bytes:
    """The log of all members after healing."""
    master = group.master
    assert master is not None
    logs = {member.id: log_of(member.store) for member in group.members.values()}
    assert logs == dict.fromkeys(logs, logs[master.id])
    for member in group.members.values():
        assert units(member.store) == units(master.store)
        assert member.store.stored_end == master.store.durable_end
    return logs[master.id]


def assert_acknowledged_stays(group: Group) -> None:
    log = equal_logs(group)
    for offset, (body, size) in group.acknowledged.items():
        assert parse_record(log[offset : offset + size]).body == body


@pytest.mark.parametrize(("count", "min_in_sync"), [(2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_killed_acknowledged_messages_stay_where_they_are(
    tmp_path: Path, seed: int, count: int, min_in_sync: int
) -> None:
    group = Group(tmp_path, seed, count=count, min_in_sync=min_in_sync)
    for _ in range(STEPS):
        group.step()

    group.heal()

    assert group.told
    assert_acknowledged_stays(group)


def test_members_with_async_flush_show_and_acknowledge_what_is_sent(tmp_path: Path) -> None:
    settings = replace(SMALL, enable_controller_mode=True, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
    group = Group(tmp_path, 1, store_settings=settings)
    group.settle(15)
    assert group.controller.in_sync == {1, 2}
    group.send()
    group.heal()
    assert len(group.acknowledged) == 1
    assert_acknowledged_stays(group)


def switch(group: Group, dead: Member, chosen: Member) -> None:
    dead.kill()
    group.controller.elect(chosen.id)
    chosen.kill()
    chosen.begin()


@pytest.mark.parametrize("as_apaches", [True, False])
def test_a_switch_in_an_idle_epoch_loses_no_acknowledged_message(tmp_path: Path, as_apaches: bool) -> None:
    """The failure of 5.5.0: its new master goes on with the old epoch, so the epochs of both logs are equal."""
    group = Group(tmp_path, 1)
    first, second = group.members.values()
    group.settle(15)
    assert group.controller.in_sync == {1, 2}
    epochs = EpochFile(first.directory).load()
    group.connections.pop(2).lose()  # what is stored now reaches nobody
    group.send()
    first.executor.run()
    assert not group.told
    end = first.store.durable_end
    switch(group, first, second)
    if as_apaches:
        assert second.side_of_master.epochs is not None
        second.side_of_master.epochs.keep(epochs)
    group.send()
    group.send()
    second.executor.run()
    assert len(group.acknowledged) == 2
    first.begin()
    group.settle(15)

    assert first.cuts == [(0, end)]
    assert group.controller.in_sync == {1, 2}
    switch(group, second, first)
    second.begin()
    group.settle(15)
    assert_acknowledged_stays(group)


def test_a_member_that_stored_what_nobody_else_has_cuts_it_off_and_keeps_a_copy(tmp_path: Path) -> None:
    group = Group(tmp_path, 1)
    first, second = group.members.values()
    for _ in range(5):
        group.send()
    group.settle(15)
    assert len(group.acknowledged) == 5
    equal_end = second.store.durable_end
    group.connections.pop(2).lose()
    group.send()
    first.executor.run()
    lost = first.store.durable_end
    switch(group, first, second)
    group.send()
    first.begin()
    group.settle(15)

    assert first.cuts == [(equal_end, lost)]
    assert list((first.directory / "recovered").iterdir())
    assert_acknowledged_stays(group)
    assert EpochFile(first.directory).load() == EpochFile(second.directory).load()
    assert [entry.epoch for entry in EpochFile(first.directory).load().entries] == [1, 2]


def test_too_small_a_set_takes_no_message(tmp_path: Path) -> None:
    group = Group(tmp_path, 1, min_in_sync=2)
    first = group.members[1]
    group.send()
    assert [result.status for result in group.told] == [PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH]
    assert ANSWER_OF[group.told[0].status] is ResponseCode.SYSTEM_ERROR
    assert first.store.max_commit_log_offset == 0
    group.settle(15)
    group.send()
    group.settle(15)
    assert len(group.acknowledged) == 1


def test_a_slave_shows_only_what_all_members_have(tmp_path: Path) -> None:
    group = Group(tmp_path, 1, count=3)
    group.settle(15)
    assert group.controller.in_sync == {1, 2, 3}
    group.members[3].kill()
    group.send()
    for _ in range(3):
        for member in (group.members[1], group.members[2]):
            member.executor.run()
        for side in (0, 1):
            group.carry(1 << 20, side)
        group.advance(1)
    second = group.members[2]
    assert second.store.durable_end == group.members[1].store.durable_end > 0
    assert second.store.stored_end == 0
    assert not group.acknowledged
    for _ in range(2):
        group.settle(15)
    assert group.controller.in_sync == {1, 2}
    assert second.store.stored_end == second.store.durable_end
    assert len(group.told) == 1


def test_members_go_on_under_controllers_that_lost_their_data_once_their_epochs_are_moved_away(tmp_path: Path) -> None:
    group = Group(tmp_path, 1)
    first, second = group.members.values()
    for dead, chosen in ((first, second), (second, first)):
        group.send()
        group.settle(15)
        switch(group, dead, chosen)
        dead.begin()
        group.send()
        group.settle(15)
    for member in (first, second):
        member.kill()
        member.cuts.clear()
    group.controller = Controller()
    group.controller.elect(first.id)
    with pytest.raises(EpochTooOld, match="epochFileCheckpoint ends with the highest epoch"):
        first.begin()
    first.kill()
    for member in (first, second):
        for path in member.directory.glob(f"{NAME}*"):
            path.rename(path.with_name(f"kept-{path.name}"))
        member.begin()
    group.send()
    group.settle(15)
    assert group.controller.in_sync == {1, 2}
    assert not first.cuts + second.cuts
    assert len(group.acknowledged) == 5
    assert_acknowledged_stays(group)
