"""The list of queues at the last clean stop."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gateway.store.consume_queues import ConsumeQueues
from gateway.store.paths import StorePaths
from gateway.store.queue_ends import QueueEnds, forget_queue_ends, load_queue_ends, save_queue_ends
from gateway.tests.store.small_store import SMALL, Disk, bodies, message, opened, put, small_store
from wire.disk.consume_queue import UNIT

LOG_END = 4711


def _queues(root: Path, disk: Disk, count: int = 2) -> ConsumeQueues:
    queues = ConsumeQueues(disk, StorePaths(root), SMALL)
    units = b"".join(UNIT.pack(number * 100, 100, number) for number in range(count))
    queues.write(queues.make("T", 3), 0, units)
    return queues


def _saved(root: Path, count: int = 2) -> tuple[Disk, StorePaths, QueueEnds]:
    disk, paths = Disk(), StorePaths(root)
    save_queue_ends(disk, paths, _queues(root, disk, count), LOG_END)
    return disk, paths, load_queue_ends(disk, paths)


def test_a_queue_that_ends_earlier_than_listed_is_lost(tmp_path: Path) -> None:
    disk, paths, ends = _saved(tmp_path)
    assert list(ends) == [("T", 3, 2)]
    queues = ConsumeQueues(disk, paths, SMALL)
    assert queues.load(ends) == []
    assert queues.lost == set()
    shutil.rmtree(paths.queue("T", 3))
    queues = ConsumeQueues(disk, paths, SMALL)
    queues.load(ends)
    assert queues.lost == {("T", 3)}
    forget_queue_ends(disk, paths)
    assert list(load_queue_ends(disk, paths)) == []


@pytest.mark.parametrize("count", [1, 10, 25])
def test_an_untouched_queue_is_taken_over_without_opening_its_files(tmp_path: Path, count: int) -> None:
    disk, paths, ends = _saved(tmp_path, count)
    assert (ends.log_end, ends.file_bytes) == (LOG_END, 200)
    looked_at, taken_over = (ConsumeQueues(disk, paths, SMALL) for _ in range(2))
    looked_at.load(ends)
    disk.most_open = len(disk.open_fds)
    taken_over.load(ends, untouched=True)
    assert disk.most_open == len(disk.open_fds)
    (one,), (other,) = looked_at, taken_over
    assert one.state() == other.state()
    assert (one.starts, one.next_offset) == (other.starts, other.next_offset)
    assert other.unit(count - 1) == ((count - 1) * 100, 100, count - 1)
    assert other.covered_end() == count * 100


def test_a_queue_whose_file_was_changed_since_is_looked_at(tmp_path: Path) -> None:
    disk, paths, ends = _saved(tmp_path)
    path = paths.queue("T", 3) / f"{0:020d}"
    with path.open("r+b") as file:
        file.write(bytes(200))
    os.utime(path, ns=(0, 0))
    queues = ConsumeQueues(disk, paths, SMALL)
    queues.load(ends, untouched=True)
    assert queues.make("T", 3).max_offset == 0
    assert queues.lost == {("T", 3)}


def test_a_queue_that_appeared_since_is_found(tmp_path: Path) -> None:
    disk, paths, ends = _saved(tmp_path)
    shutil.copytree(paths.queue("T", 3), paths.queue("T", 4))
    os.utime(paths.consume_queue / "T", ns=(0, 0))
    queues = ConsumeQueues(disk, paths, SMALL)
    queues.load(ends, untouched=True)
    assert sorted(queue.queue_id for queue in queues) == [3, 4]


def test_a_store_that_was_closed_opens_no_consume_queue(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(12):
        put(store, message(b"%d" % number, queue_id=number))
    store.close()
    opened_paths: list[Path] = []

    class Watching(Disk):
        def open(self, path: Path, *, create: bool = False) -> int:
            opened_paths.append(path)
            return super().open(path, create=create)

    store = small_store(tmp_path, disk=Watching())
    store.open()
    assert len([path for path in opened_paths if "consumequeue" in str(path)]) == 1, "that of the last message"
    assert [bodies(store, queue_id=number) for number in range(12)] == [[b"%d" % number] for number in range(12)]


@pytest.mark.parametrize("text", [b"", b"\xff\xfe\x00", b"T\t3\n", b"T\tx\t9\n", b"T\t3\t-1\n", b"T\t3\t9\t9\n"])
def test_what_cannot_be_read_is_no_loss(tmp_path: Path, text: bytes) -> None:
    disk, paths = Disk(), StorePaths(tmp_path)
    paths.queue_ends.write_bytes(text)
    assert list(load_queue_ends(disk, paths)) == []


def test_a_damaged_list_says_nothing(tmp_path: Path) -> None:
    disk, paths, _ = _saved(tmp_path)
    data = paths.queue_ends.read_bytes()
    for at in range(len(data)):
        paths.queue_ends.write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
        ends = load_queue_ends(disk, paths)
        assert (list(ends), ends.topics) == ([], ()) or ends.log_end != LOG_END or ends.file_bytes != 200
        paths.queue_ends.write_bytes(data[:at])
        assert list(load_queue_ends(disk, paths)) == []


def test_the_first_version_tells_of_losses_only(tmp_path: Path) -> None:
    disk, paths = Disk(), StorePaths(tmp_path)
    paths.queue_ends.write_bytes(b"T\t3\t2\n")
    ends = load_queue_ends(disk, paths)
    assert (list(ends), ends.topics, ends.log_end) == ([("T", 3, 2)], (), -1)
