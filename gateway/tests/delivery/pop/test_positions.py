"""The position of a group while pops are under way: after them, or as before if one fails or a reset comes between."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.delivery.pop.positions import Positions
from gateway.metadata.offsets import ConsumerOffsets

KEY = ("orders", "mail", 2)


@pytest.fixture
def offsets(tmp_path: Path) -> ConsumerOffsets:
    offsets = ConsumerOffsets(path=tmp_path / "consumerOffset.json", clock_ms=lambda: 0)
    offsets.commit("mail", "orders", 2, 10)
    return offsets


def committed(offsets: ConsumerOffsets) -> int:
    return offsets.query("mail", "orders", 2)


def test_the_next_pop_goes_on_behind_those_under_way(offsets: ConsumerOffsets) -> None:
    positions = Positions(offsets)
    first = positions.step(KEY, 20)
    assert (positions.committed(KEY), committed(offsets)) == (20, 10)
    second = positions.step(KEY, 30)
    positions.stored(first)
    assert (positions.committed(KEY), committed(offsets)) == (30, 20)
    positions.stored(second)
    assert (positions.committed(KEY), committed(offsets)) == (30, 30)
    assert len(positions) == 0


def test_after_a_failure_the_group_goes_on_where_it_was_and_what_follows_does_not_count(
    offsets: ConsumerOffsets,
) -> None:
    positions = Positions(offsets)
    failing, following = positions.step(KEY, 20), positions.step(KEY, 30)
    positions.failed(failing)
    assert positions.committed(KEY) == 10
    anew = positions.step(KEY, 20)
    positions.stored(following)
    assert (positions.committed(KEY), committed(offsets)) == (20, 10)
    positions.stored(anew)
    assert committed(offsets) == 20


def test_a_reset_is_not_moved_by_pops_that_were_under_way(offsets: ConsumerOffsets) -> None:
    positions = Positions(offsets)
    before = positions.step(KEY, 20)
    offsets.reset("mail", "orders", 2, 3)
    assert positions.committed(KEY) == 3
    after = positions.step(KEY, 5)
    positions.stored(before)
    assert committed(offsets) == 3
    positions.stored(after)
    assert committed(offsets) == 5


def test_forgetting_a_queue_says_whether_pops_are_under_way(offsets: ConsumerOffsets) -> None:
    positions = Positions(offsets)
    assert not positions.forget(KEY)
    step = positions.step(KEY, 20)
    assert positions.forget(KEY)
    positions.stored(step)
    positions.failed(step)
    assert committed(offsets) == 10


def test_messages_that_are_not_for_the_group_are_skipped_also_behind_pops_under_way(offsets: ConsumerOffsets) -> None:
    positions = Positions(offsets)
    positions.skip(KEY, 15)
    assert committed(offsets) == 15
    step = positions.step(KEY, 20)
    positions.skip(KEY, 40)
    assert (positions.committed(KEY), committed(offsets)) == (40, 15)
    positions.stored(step)
    assert positions.committed(KEY) == 20


def test_a_queue_that_is_read_from_the_disk_is_known(offsets: ConsumerOffsets) -> None:
    positions = Positions(offsets)
    positions.begin_read(KEY)
    assert positions.is_read(KEY)
    assert not positions.is_read(("orders", "mail", 3))
    positions.end_read(KEY)
    assert not positions.is_read(KEY)
