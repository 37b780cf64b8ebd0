"""The list of queues, their ends, and how their files looked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gateway.store.disk.paths import StorePaths
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.store.queues.queue_ends import (
    QueueEnds,
    build_head,
    build_line,
    build_list,
    parse_list,
    queue_files_modified,
)
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
    queues = _queues(root, disk, count)
    queues.sync()
    queues.list_changed(LOG_END)
    ends = queues.journal.load()
    queues.close()
    return disk, paths, ends


def test_a_queue_that_ends_earlier_than_listed_is_lost(tmp_path: Path) -> None:
    disk, paths, ends = _saved(tmp_path)
    assert list(ends) == [("T", 3, 2)]
    queues = ConsumeQueues(disk, paths, SMALL)
    assert queues.load(ends) == []
    assert queues.lost == {}
    shutil.rmtree(paths.queue("T", 3))
    queues = ConsumeQueues(disk, paths, SMALL)
    queues.load(ends)
    assert queues.lost == {("T", 3): 2}


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
    assert one.state(LOG_END) == other.state(LOG_END)
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
    assert queues.lost == {("T", 3): 2}


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


@pytest.mark.parametrize("text", [b"", b"\xff\xfe\x00", b"T\t3\n", b"#2 1 2 3\n[]", b"#3 x\n", b"#3 20", b"\n"])
def test_what_cannot_be_read_is_no_loss(text: bytes) -> None:
    assert parse_list(text) == QueueEnds()


def test_a_line_that_is_damaged_counts_as_not_written_and_so_do_those_behind_it() -> None:
    lines = [build_line(number, "run", [("T", 5, [(0, number, 0, 0, 0, 0, 0, 7)])]) for number in range(3)]
    head = build_head(200)
    whole = parse_list(head + b"".join(lines))
    assert (whole.log_end, list(whole), whole.bytes_read) == (2, [("T", 0, 2)], len(head + b"".join(lines)))
    data = head + b"".join(lines)
    for at in range(len(head), len(data)):
        number = 0 if at < len(head + lines[0]) else 1 if at < len(head + lines[0] + lines[1]) else 2
        for damaged in (data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :], data[:at]):
            found = parse_list(damaged)
            assert found.log_end == number - 1
            assert found.bytes_read == len(head + b"".join(lines[:number]))


def test_later_lines_count_and_a_deleted_topic_is_not_lost() -> None:
    data = build_head(200)
    data += build_line(1, "a", [("T", 5, [(0, 1, 0, 0, 0, 0, 0, 7), (1, 9, 0, 0, 0, 0, 0, 7)]), ("U", 5, [])])
    data += build_line(2, "a", [("T", 6, [(1, 10, 0, 0, 0, 0, 0, 8)])])
    data += build_line(2, "b", [], ["U"])
    assert parse_list(data) == QueueEnds(
        [("T", 6, [(0, 1, 0, 0, 0, 0, 0, 7), (1, 10, 0, 0, 0, 0, 0, 8)])], 2, 200, "b", len(data)
    )
    assert list(parse_list(data + build_line(3, "b", [], ["T"]))) == []


def test_a_list_of_many_topics_is_several_lines_of_which_the_last_makes_it_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.store.queues.queue_ends.TOPICS_PER_LINE", 2)
    ends = QueueEnds([(f"T{number}", 1, [(0, 1, 0, 0, 0, 0, 0, 7)]) for number in range(5)], 9, 200, "run")
    lines = list(build_list(ends))
    assert len(lines) == 5
    data = b"".join(lines)
    assert parse_list(data) == QueueEnds(ends.topics, 9, 200, "run", len(data))
    assert parse_list(b"".join(lines[:-1])).log_end == -1


def test_a_queue_of_more_files_than_there_can_be_is_looked_at_itself(tmp_path: Path) -> None:
    topics = [("T", [(0, 1, 0, 0, 0, 0, 2**62, 7), (1, 1, 0, 0, 0, 0, 200, 7), (2, 0, 0, -1, -1, -1, -1, 7)])]
    assert queue_files_modified(Disk(), StorePaths(tmp_path), topics, 100) == [-1, -1, 0]
    assert queue_files_modified(Disk(), StorePaths(tmp_path), topics, 0) == [-1, -1, 0]


def test_a_queue_without_files_does_not_shift_the_times_of_others(tmp_path: Path) -> None:
    folder = StorePaths(tmp_path).queue("T", 1)
    folder.mkdir(parents=True)
    for start, changed_ns in ((0, 5), (200, 9)):
        path = folder / f"{start:020d}"
        path.touch()
        os.utime(path, ns=(changed_ns, changed_ns))
    none, two = (0, 0, 0, -1, -1, -1, -1, 0), (1, 11, 0, 0, 0, 0, 200, 0)
    for queues, expected in (([none, two], [0, 9]), ([two, none], [9, 0]), ([none, two, none], [0, 9, 0])):
        assert queue_files_modified(Disk(), StorePaths(tmp_path), [("T", queues)], 200) == expected
