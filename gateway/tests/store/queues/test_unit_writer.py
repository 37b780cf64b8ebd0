"""Units into queues: topics made anew, gaps, and messages out of line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.disk.paths import StorePaths
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.store.queues.unit_writer import UnitWriter
from gateway.tests.store.small_store import SMALL, Disk
from wire.disk.consume_queue import FILLER_SIZE, UNIT
from wire.disk.unit_collector import CollectedUnits

SIZE = 100


def _found(*offsets: int) -> CollectedUnits:
    """Messages of one queue with these offsets, one after the other in the log."""
    found = CollectedUnits("T", 0, not_below=0, by_properties=False)
    for number, offset in enumerate(offsets):
        units = found.units if offset == found.next_offset else found.begin_run(offset)
        units += UNIT.pack((number + 1) * SIZE, SIZE, 0)
        found.next_offset = offset + 1
    return found


def _written(
    root: Path, *offsets: int, known: int = 0, from_begin: bool = True
) -> tuple[UnitWriter, list[tuple[int, int]]]:
    """The writer, and (log offset, size) of every unit of the queue afterwards."""
    queues = ConsumeQueues(Disk(), StorePaths(root), SMALL)
    if known:
        queues.write(queues.make("T", 0), 0, UNIT.pack(0, SIZE, 0) * known)
    writer = UnitWriter(queues)
    writer.write([_found(*offsets)], from_begin=from_begin)
    queue = queues.make("T", 0)
    units = [queue.unit(offset) for offset in range(queue.max_offset)]
    return writer, [unit[:2] for unit in units if unit is not None]


def test_units_go_on_behind_those_the_queue_has(tmp_path: Path) -> None:
    writer, units = _written(tmp_path, 2, 3, known=2, from_begin=False)
    assert units == [(0, SIZE), (0, SIZE), (100, SIZE), (200, SIZE)]
    assert (writer.lost, writer.remarks, writer.written) == (set(), [], 2)


def test_offsets_that_begin_anew_are_a_topic_made_anew(tmp_path: Path) -> None:
    writer, units = _written(tmp_path, 2, 3, 0, 1, known=2, from_begin=False)
    assert units == [(300, SIZE), (400, SIZE)]
    assert writer.remarks == []


@pytest.mark.parametrize("known", [0, 2])
def test_a_gap_in_a_part_of_the_log_is_a_lost_queue(tmp_path: Path, known: int) -> None:
    writer, units = _written(tmp_path, 5, 6, known=known, from_begin=False)
    assert writer.lost == {("T", 0)}
    assert len(units) == known


def test_a_gap_for_which_the_log_has_no_room_is_no_gap(tmp_path: Path) -> None:
    writer, units = _written(tmp_path, 0, 1, 3)
    assert units == [(100, SIZE), (200, SIZE)]
    assert writer.lost == set()
    assert "the queue ends at 2 and so many were never stored" in writer.remarks[0]


def test_a_gap_as_large_as_what_is_missing_of_the_log_is_bridged(tmp_path: Path) -> None:
    queues = ConsumeQueues(Disk(), StorePaths(tmp_path), SMALL)
    writer = UnitWriter(queues)
    found = _found(0)
    found.begin_run(3).extend(UNIT.pack(1000, SIZE, 0))
    writer.write([found], from_begin=True)
    queue = queues.make("T", 0)
    assert [queue.unit(offset) for offset in range(4)] == [
        (100, SIZE, 0),
        (200, FILLER_SIZE, 0),
        (200, FILLER_SIZE, 0),
        (1000, SIZE, 0),
    ]
    assert writer.remarks == ["T/0: messages 1 to 2 are not in the commit log"]


@pytest.mark.parametrize("stray", [1 << 50, -7])
def test_one_message_out_of_line_does_not_hide_the_others(tmp_path: Path, stray: int) -> None:
    writer, units = _written(tmp_path, 0, 1, stray, 3, 4)
    assert [position for position, size in units if size == SIZE] == [100, 200, 400, 500]
    assert "say they are number" in writer.remarks[0]
    assert "messages 2 to 2 are not in the commit log" in writer.remarks[1]


def test_a_number_that_is_taken_stays_with_the_first(tmp_path: Path) -> None:
    writer, units = _written(tmp_path, 0, 1, 2, 1)
    assert [position for position, _ in units] == [100, 200, 300]
    assert "the queue has other messages up to 3" in writer.remarks[0]


def test_a_first_message_out_of_line_does_not_take_the_queue_along(tmp_path: Path) -> None:
    _, units = _written(tmp_path, 1 << 40, 1, 2)
    assert [position for position, size in units if size == SIZE] == [200, 300]


@pytest.mark.parametrize("offset", [2**59, 2**62, 2**63 - 1])
def test_an_offset_that_no_file_can_hold_is_in_no_queue(tmp_path: Path, offset: int) -> None:
    writer, units = _written(tmp_path, offset)
    assert units == []
    assert f"number {offset}" in writer.remarks[0]
    assert not list((tmp_path / "consumequeue").glob("*/*/*"))
