"""One queue's files: ends found by halving, fillers, retried writes, cuts."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.queues.consume_queue import ConsumeQueue, QueueFiles
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.tests.store.small_store import SMALL, Disk, overwrite
from wire.compiled import IS_COMPILED
from wire.disk.consume_queue import FILLER, FILLER_SIZE, UNIT

FILE_UNITS = 10
COUNTED = 200
MOST_COST = 240 if IS_COMPILED else 200
"""The most bytes of a queue with one file and written units: 162 interpreted, 191 to 204 compiled, once 292."""


def _unit(number: int) -> bytes:
    return UNIT.pack(number * 100, 100, number)


def _units(first: int, count: int) -> bytes:
    return b"".join(_unit(number) for number in range(first, first + count))


def _queue(directory: Path, disk: Disk | None = None) -> ConsumeQueue:
    return ConsumeQueue(QueueFiles(disk or Disk(), directory, FILE_UNITS * 20, 4), "T", 0)


def _loaded(directory: Path) -> ConsumeQueue:
    queue = _queue(directory)
    queue.load(sorted(path.name for path in (directory / "T" / "0").iterdir()))
    return queue


@pytest.mark.parametrize("count", [1, 9, 10, 11, 20, 25])
def test_the_end_is_found_again(tmp_path: Path, count: int) -> None:
    assert _queue(tmp_path).write_units(0, _units(0, count)) == list(range(0, count * 20, 200))
    queue = _loaded(tmp_path)
    assert (queue.max_offset, queue.next_offset, queue.covered_end()) == (count, count, count * 100)
    assert queue.unit(count - 1) == ((count - 1) * 100, 100, count - 1)
    assert queue.unit(count) is None


@pytest.mark.parametrize("first", [3, 10, 27])
def test_a_queue_that_starts_above_zero_begins_with_fillers(tmp_path: Path, first: int) -> None:
    queue = _queue(tmp_path)
    queue.write_units(first, _units(first, 2))
    start = first // FILE_UNITS * FILE_UNITS
    data = (tmp_path / "T" / "0" / f"{start * 20:020d}").read_bytes()
    assert data[: (first - start) * 20] == FILLER * (first - start)
    assert queue.min_offset == first
    queue = _loaded(tmp_path)
    assert queue.max_offset == first + 2
    queue.correct_min(0)
    assert queue.min_offset == first


def test_files_full_of_zeros_are_an_empty_queue(tmp_path: Path) -> None:
    (tmp_path / "T" / "0").mkdir(parents=True)
    (tmp_path / "T" / "0" / f"{0:020d}").write_bytes(bytes(200))
    queue = _loaded(tmp_path)
    assert (queue.min_offset, queue.max_offset, queue.covered_end()) == (0, 0, -1)
    assert queue.cut(0) is False
    queue.write_units(0, _unit(0))
    assert queue.max_offset == 1


def test_a_zero_file_made_in_advance_is_not_the_end(tmp_path: Path) -> None:
    _queue(tmp_path).write_units(0, _units(0, 10))
    (tmp_path / "T" / "0" / f"{200:020d}").write_bytes(bytes(200))
    queue = _loaded(tmp_path)
    assert queue.max_offset == 10
    queue.write_units(10, _units(10, 1))
    assert queue.unit(10) == (1000, 100, 10)


@pytest.mark.parametrize("operation", ["truncate", "write"])
def test_units_that_found_no_room_may_be_written_again(tmp_path: Path, operation: str) -> None:
    disk = Disk()
    queue = _queue(tmp_path, disk)
    disk.fail(operation, f"{0:020d}", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        queue.write_units(3, _units(3, 2))
    assert queue.max_offset == 0
    disk.fault = None
    queue.write_units(3, _units(3, 2))
    assert (queue.min_offset, queue.max_offset, queue.unit(3)) == (3, 5, (300, 100, 3))
    assert _loaded(tmp_path).max_offset == 5
    assert (tmp_path / "T" / "0" / f"{0:020d}").stat().st_size == 200


@pytest.mark.parametrize("written", [0, 3])
@pytest.mark.parametrize("is_later", [False, True])
def test_units_that_are_held_are_read_like_written_ones(tmp_path: Path, written: int, is_later: bool) -> None:
    queue = _queue(tmp_path)
    if written:
        queue.write_units(0, _units(0, written))
    queue.hold_units(_units(written, 5 - written))
    queue.hold_units(_units(5, 1))
    assert len(list(tmp_path.rglob("0*"))) == (2 if written else 0), "nothing is made for held units"
    if is_later:
        assert queue.write_held() == [0]
        assert queue.write_held() == [], "they are written once"
        assert _loaded(tmp_path).max_offset == 6
    assert (queue.max_offset, queue.next_offset, queue.covered_end()) == (6, 6, 600)
    for offset in range(6):
        for count in range(1, 9):
            expected = _units(offset, min(count, 6 - offset))
            assert queue.read_units(offset, count) == expected
            assert queue.read_units_now(offset, count) == expected
    assert queue.unit(6) is None
    assert (queue.min_for(0), queue.min_for(401), queue.min_for(9999)) == (0, 5, 6)
    if written or is_later:
        assert queue.state(500) == (5, 0, 500, 0, 0, 0)


@pytest.mark.parametrize(("length", "count"), [(0, 25), (3, 4), (9, 2), (10, 1), (10, 10), (5, 30)])
def test_units_are_held_whatever_files_they_take(tmp_path: Path, length: int, count: int) -> None:
    queue = _queue(tmp_path)
    if length:
        queue.write_units(0, _units(0, length))
    queue.hold_units(_units(length, count))
    for _ in range(2):
        for offset in range(length + count):
            in_file = min(length + count, queue.next_file_offset(offset)) - offset
            expected = _units(offset, in_file)
            assert queue.read_units(offset, 99) == queue.read_units_now(offset, 99) == expected
            assert queue.stored_unit(offset) == queue.unit(offset)
        assert queue.write_held() in (list(range(length * 20 // 200 * 200, (length + count) * 20, 200)), [])
    assert _loaded(tmp_path).max_offset == length + count


def test_held_units_that_found_no_room_are_held_on(tmp_path: Path) -> None:
    disk = Disk()
    queue = _queue(tmp_path, disk)
    queue.write_units(0, _unit(0))
    queue.hold_units(_unit(1))
    disk.fail("write", f"{0:020d}", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        queue.write_held()
    assert queue.unit(1) == (100, 100, 1)
    disk.fault = None
    queue.hold_units(_unit(2))
    queue.write_held()
    assert (queue.max_offset, _loaded(tmp_path).max_offset) == (3, 3)


def test_units_that_come_while_others_are_written_are_held_on(tmp_path: Path) -> None:
    disk = Disk()
    queue = _queue(tmp_path, disk)
    queue.write_units(0, _unit(0))
    queue.hold_units(_unit(1))

    def hold_more(operation: str, _path: Path) -> None:
        if operation == "write":
            queue.hold_units(_unit(2))

    disk.fault = hold_more
    queue.write_held()
    disk.fault = None
    assert queue.read_units(0, 9) == queue.read_units_now(0, 9) == _units(0, 3)
    assert _loaded(tmp_path).max_offset == 2
    queue.write_held()
    assert _loaded(tmp_path).max_offset == 3


def test_a_queue_whose_units_are_written_costs_the_memory_of_its_figures_only(tmp_path: Path) -> None:
    shared = QueueFiles(FileLayer(), tmp_path, FILE_UNITS * 20, 1)
    kept = [_with_a_message(shared, number) for number in range(2)]  # with what all share
    tracemalloc.start()
    try:
        kept += [_with_a_message(shared, number) for number in range(2, 2 + COUNTED)]
        cost = tracemalloc.get_traced_memory()[0] / COUNTED
    finally:
        tracemalloc.stop()
    assert cost < MOST_COST


def test_the_queues_of_a_topic_share_its_name(tmp_path: Path) -> None:
    queues = ConsumeQueues(Disk(), StorePaths(tmp_path), SMALL)
    first, other, second = (queues.make(name.decode(), 7) for name in (b"orders", b"bills", b"bills"))
    assert (first.topic, other) == ("orders", second)
    assert queues.make(b"bills".decode(), 8).topic is other.topic


def _with_a_message(shared: QueueFiles, queue_id: int) -> ConsumeQueue:
    queue = ConsumeQueue(shared, "T", queue_id)
    queue.hold_units(_unit(0))
    queue.write_held()
    return queue


@pytest.mark.parametrize("forget", [ConsumeQueue.clear, ConsumeQueue.let_go])
def test_a_queue_without_files_holds_nothing(tmp_path: Path, forget: Callable[[ConsumeQueue], None]) -> None:
    queue = _queue(tmp_path)
    queue.write_units(0, _unit(0))
    queue.hold_units(_unit(1))
    forget(queue)
    assert queue.write_held() == []
    assert (queue.max_offset, queue.unit(1)) == (0, None)


@pytest.mark.parametrize("keep", [0, 1, 9, 10, 15, 24, 25, 30])
def test_a_cut_forgets_what_is_at_or_above_an_offset_and_erases_it(tmp_path: Path, keep: int) -> None:
    _queue(tmp_path).write_units(0, _units(0, 25))
    queue = _loaded(tmp_path)
    assert queue.cut(keep * 100) is (keep < 25)
    assert queue.max_offset == min(keep, 25)
    found = b"".join(path.read_bytes() for path in sorted((tmp_path / "T" / "0").iterdir()))
    assert found.rstrip(b"\x00") == _units(0, min(keep, 25)).rstrip(b"\x00")
    assert _loaded(tmp_path).max_offset == min(keep, 25)


def test_a_cut_finds_units_behind_a_gap_of_zeros(tmp_path: Path) -> None:
    _queue(tmp_path).write_units(0, _units(0, 8))
    path = tmp_path / "T" / "0" / f"{0:020d}"
    overwrite(path, 40, bytes(60))
    queue = _loaded(tmp_path)
    queue.cut(200)
    assert queue.max_offset == 2
    assert path.read_bytes() == _units(0, 2).ljust(200, b"\x00")


@pytest.mark.parametrize("size", [1, 180, 220])
def test_a_file_of_a_wrong_size_gives_up_the_queue(tmp_path: Path, size: int) -> None:
    _queue(tmp_path).write_units(0, _units(0, 25))
    (tmp_path / "T" / "0" / f"{200:020d}").write_bytes(bytes(size))
    queue = _queue(tmp_path)
    remarks = queue.load(sorted(path.name for path in (tmp_path / "T" / "0").iterdir()))
    assert "the queue is rebuilt" in remarks[0]
    assert (queue.is_damaged, queue.max_offset) == (True, 0)
    queue.clear()
    assert (queue.is_damaged, queue.starts, list((tmp_path / "T" / "0").iterdir())) == (False, (), [])


def test_a_missing_file_in_between_gives_up_the_queue(tmp_path: Path) -> None:
    _queue(tmp_path).write_units(0, _units(0, 25))
    (tmp_path / "T" / "0" / f"{200:020d}").unlink()
    assert _loaded(tmp_path).is_damaged


def test_the_minimum_moves_past_deleted_messages_and_files_below_it_go(tmp_path: Path) -> None:
    queue = _queue(tmp_path)
    queue.write_units(0, _units(0, 25))
    for commit_log_min, expected in ((0, 0), (100, 1), (150, 2), (2400, 24), (2500, 25), (9999, 25), (0, 25)):
        queue.correct_min(commit_log_min)
        assert queue.min_offset == expected
    assert len(queue.take_expired()) == 2
    assert queue.starts == (400,), "never the last one"
    assert _loaded(tmp_path).max_offset == 25


@pytest.mark.parametrize("how", ["restored", "cut"])
def test_what_was_known_of_a_first_unit_does_not_outlive_it(tmp_path: Path, how: str) -> None:
    queue = _queue(tmp_path)
    queue.write_units(0, _units(0, 3))
    queue = _loaded(tmp_path)
    queue.cut(0)
    if how == "restored":
        state = queue.state(1 << 40)
        queue = _queue(tmp_path)
        queue.restore((0, *state, 0))
    queue.write_units(0, _units(50, 2))
    queue.correct_min(4000)
    assert (queue.min_offset, queue.max_offset) == (0, 2)


def test_units_that_lead_over_a_gap_of_several_files_are_as_good_as_others(tmp_path: Path) -> None:
    bridge = UNIT.pack(500, FILLER_SIZE, 0) * 33
    _queue(tmp_path).write_units(0, _units(0, 5) + bridge)
    queue = _loaded(tmp_path)
    assert (queue.is_damaged, queue.max_offset, queue.covered_end()) == (False, 38, 500)
    assert queue.state(1 << 40)[:3] == (38, 0, 500)
    assert queue.cut(500) is False
    queue.write_units(38, UNIT.pack(500, 100, 0))
    queue = _loaded(tmp_path)
    assert (queue.is_damaged, queue.covered_end(), queue.state(500)[:3]) == (False, 600, (38, 0, 500))
    assert queue.cut(500) is True
    assert (queue.max_offset, queue.covered_end()) == (38, 500)
    assert queue.cut(400) is True
    assert queue.max_offset == 4


def test_a_file_that_does_not_go_on_where_the_one_before_ends_gives_up_the_queue(tmp_path: Path) -> None:
    _queue(tmp_path).write_units(0, _units(0, 20))
    directory = tmp_path / "T" / "0"
    (directory / f"{400:020d}").write_bytes((directory / f"{0:020d}").read_bytes())
    queue = _queue(tmp_path)
    (remark,) = queue.load(sorted(path.name for path in directory.iterdir()))
    assert "does not go on where the file before ends" in remark
    assert queue.is_damaged


def test_a_foreign_file_in_the_place_of_the_next_one_is_emptied_first(tmp_path: Path) -> None:
    queue = _queue(tmp_path)
    queue.write_units(0, _units(0, 10))
    path = tmp_path / "T" / "0" / f"{200:020d}"
    path.write_bytes(b"\x01" * 200)
    queue.write_units(10, _units(10, 1))
    assert path.read_bytes() == _unit(10).ljust(200, b"\x00")
