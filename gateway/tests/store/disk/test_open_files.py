"""A bounded set of descriptors that outlive their place in it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Thread

import pytest

from gateway.store.disk.files import FileLayer
from gateway.store.disk.open_files import OpenFiles
from gateway.store.queues.consume_queue import ConsumeQueue, QueueFiles
from gateway.tests.store.small_store import Disk
from wire.disk.consume_queue import UNIT


def test_the_file_used_longest_ago_is_closed_when_there_are_too_many(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 2)
    for name in "ab":
        with files.open(name, tmp_path / name, create=True):
            pass
    assert is_open(files, "a")
    with files.open("c", tmp_path / "c", create=True):
        pass
    assert [is_open(files, name) for name in "abc"] == [True, False, True]
    assert sorted(path.name for path in disk.open_fds.values()) == ["a", "c"]


def is_open(files: OpenFiles, key: str) -> bool:
    """And it is used, which makes it the last one to go."""
    file = files.lend(key)
    if file is None:
        return False
    with file:
        return True


def test_a_lent_file_stays_open_until_the_last_use_ends(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 1)
    with files.open("a", tmp_path / "a", create=True) as fd:
        again = files.lend("a")
        assert again is not None
        disk.pwrite(fd, b"x", 0)
        with files.open("b", tmp_path / "b", create=True):
            files.forget("b")
        files.clear()
        assert disk.pread(fd, 1, 0) == b"x"
        assert files.lend("a") is None, "it was let go"
    with again as fd:
        assert disk.pread(fd, 1, 0) == b"x"
    assert (len(files), disk.open_fds) == (0, {})


def test_an_error_in_a_use_ends_it(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 1)
    file = files.open("a", tmp_path / "a", create=True)
    files.clear()
    with pytest.raises(OSError, match="No space"), file:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert disk.open_fds == {}


def test_of_two_who_open_a_file_at_once_the_first_one_keeps_it(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 2)
    with files.open("a", tmp_path / "a", create=True) as first:
        with files.open("a", tmp_path / "a") as second:
            assert first != second
        assert list(disk.open_fds) == [first]
    file = files.lend("a")
    assert file is not None
    with file as kept:
        assert kept == first


def test_a_file_made_anew_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 2)
    with files.open("a", tmp_path / "a", create=True) as first:
        (tmp_path / "a").unlink()
        with files.open("a", tmp_path / "a", create=True) as second:
            assert set(disk.open_fds) == {first, second}
    assert list(disk.open_fds) == [second]


def test_a_file_that_cannot_be_closed_keeps_nobody_from_working(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Disk):
        def close(self, fd: int) -> None:
            super().close(fd)
            raise OSError("of another use")

    files = OpenFiles(Failing(), 1)
    for name in "ab":
        with files.open(name, tmp_path / name, create=True):
            pass
    files.clear()
    assert [record.message for record in caplog.records] == ["a file of the store could not be closed"] * 2


def test_a_file_that_nobody_let_go_is_closed_with_its_owner(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 1)
    with files.open("a", tmp_path / "a", create=True):
        pass
    del files
    assert disk.open_fds == {}


def test_a_file_that_is_missing_is_an_error_and_takes_no_place(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), 1)
    with pytest.raises(FileNotFoundError):
        files.open("a", tmp_path / "a")
    assert len(files) == 0


QUEUES = 80_000


class InMemory(Disk):
    """All that is open is in memory, whatever else the system needs its memory for."""

    def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
        return self.pread(fd, count, offset)


def test_eighty_thousand_queues_are_served_with_a_few_descriptors(tmp_path: Path) -> None:
    """Each is written and read once and then again in another order; a few busy ones stay open meanwhile."""
    disk = InMemory()
    shared = QueueFiles(disk, tmp_path, 40, 64)
    for name in range(QUEUES // 400):  # the directories of one topic are the dear part of this test
        (tmp_path / "T" / str(name)).mkdir(parents=True)
    queues = [ConsumeQueue(shared, "T", number % (QUEUES // 400)) for number in range(QUEUES)]
    for number, queue in enumerate(queues):
        queue.starts = (0,)
        if number < QUEUES // 400:
            queue.starts = ()
            queue.write_units(0, UNIT.pack(number, 100, 0))
        queue.max_offset = 1
    busy = queues[:8]
    opened = len(disk.calls)
    for number in range(0, QUEUES, 7):
        queue = queues[number * 31 % QUEUES]
        assert queue.unit(0) == (queue.queue_id, 100, 0)
        for other in busy:
            assert other.read_units_now(0, 1) is not None or number == 0
            other.unit(0)
    assert disk.most_open <= 64 + 1
    assert len(shared.open_files) <= 64
    assert len(disk.calls) == opened, "reading makes no file"


def test_many_threads_share_the_files_without_a_descriptor_closed_under_them(tmp_path: Path) -> None:
    disk = FileLayer()
    files = OpenFiles(disk, 2)
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    wrong: list[object] = []

    def read(seed: int) -> None:
        for step in range(400):
            number = (seed * 7 + step * step) % 10
            with files.lend(number) or files.open(number, tmp_path / str(number)) as fd:
                if disk.pread(fd, 1, 0) != b"%d" % number:
                    wrong.append(number)

    threads = [Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(files) <= 2
