"""The operating system's files: short writes, holes, locks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.store.disk.files import MAX_BUFFERS_PER_WRITE, DiskSpace, FileLayer
from gateway.tests.store.page_cache import evict, is_left_to_the_disk


def test_more_buffers_than_one_call_takes_are_written(tmp_path: Path) -> None:
    files = FileLayer()
    fd = files.open(tmp_path / "a", create=True)
    buffers = [b"%05d" % number for number in range(MAX_BUFFERS_PER_WRITE * 2 + 3)]
    files.pwritev(fd, buffers, 7)
    assert files.pread(fd, 1 << 20, 7) == b"".join(buffers)
    files.close(fd)


@pytest.mark.parametrize("buffers", [[b"0123456789"], [b"01234", b"56789"]])
def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffers: list[bytes]) -> None:
    files = FileLayer()
    fd = files.open(tmp_path / "a", create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data[:3]), at))
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: real(fd, b"".join(parts)[:3], at))
    files.pwritev(fd, buffers, 0)
    assert files.pread(fd, 100, 0) == b"0123456789"
    files.close(fd)


def test_a_write_that_gets_nowhere_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileLayer()
    fd = files.open(tmp_path / "a", create=True)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="No space") as caught:
        files.pwrite(fd, b"x", 0)
    assert caught.value.errno == errno.ENOSPC
    files.close(fd)


def test_holes_are_not_data(tmp_path: Path) -> None:
    files = FileLayer()
    fd = files.open(tmp_path / "a", create=True)
    files.truncate(fd, 1 << 24)
    assert files.data_ranges(fd, 0, 1 << 24) in ([], [(0, 1 << 24)])
    files.pwrite(fd, b"x", 1 << 23)
    ranges = files.data_ranges(fd, 0, 1 << 24)
    assert any(start <= 1 << 23 < end for start, end in ranges)
    assert files.data_ranges(fd, (1 << 23) + 1, (1 << 23) + 2) in ([], [((1 << 23) + 1, (1 << 23) + 2)])
    files.close(fd)


def test_a_lock_keeps_others_out_until_it_is_closed(tmp_path: Path) -> None:
    files = FileLayer()
    first, second = files.open(tmp_path / "lock", create=True), files.open(tmp_path / "lock")
    assert files.lock(first)
    assert not files.lock(second)
    files.close(first)
    assert files.lock(second)
    files.close(second)


def test_missing_things_are_no_error_where_that_is_said(tmp_path: Path) -> None:
    files = FileLayer()
    files.unlink(tmp_path / "missing")
    files.remove_directory(tmp_path / "missing")
    (tmp_path / "filled" / "inner").mkdir(parents=True)
    files.remove_directory(tmp_path / "filled")
    assert files.exists(tmp_path / "filled")
    assert files.list(tmp_path / "missing") == []


def test_used_percent_of_nothing_is_zero() -> None:
    assert DiskSpace(0, 0).used_percent == 0
    assert DiskSpace(200, 50).used_percent == 75


MIB = 1 << 20


@pytest.fixture
def real_file(tmp_path: Path) -> Iterator[tuple[FileLayer, int]]:
    """A file of 4 MiB on a file system that can tell what is in memory."""
    files = FileLayer()
    fd = files.open(tmp_path / "a", create=True)
    files.pwrite(fd, bytes(range(256)) * (4 * MIB // 256), 0)
    if not files.sees_memory or files.pread_now(fd, 10, 0) is None or not files.sees_memory:
        pytest.skip("this file system cannot tell what is in memory; ext4, xfs and btrfs can")
    yield files, fd
    files.close(fd)


def test_what_is_not_in_memory_is_not_waited_for(tmp_path: Path, real_file: tuple[FileLayer, int]) -> None:
    files, fd = real_file
    assert is_left_to_the_disk(lambda: files.pread_now(fd, 4 * MIB, 0), lambda: evict([tmp_path / "a"]))
    assert files.pread(fd, 4096, 3 * MIB) == bytes(range(256)) * 16
    assert files.pread_now(fd, 4096, 3 * MIB) == bytes(range(256)) * 16


def test_what_is_partly_in_memory_is_not_waited_for(tmp_path: Path, real_file: tuple[FileLayer, int]) -> None:
    files, fd = real_file

    def all_but_the_beginning() -> None:
        evict([tmp_path / "a"])
        files.pread(fd, 100, 0)
        assert files.pread_now(fd, 100, 0) is not None

    assert is_left_to_the_disk(lambda: files.pread_now(fd, 4 * MIB, 0), all_but_the_beginning)


def test_what_was_asked_for_comes_into_memory(tmp_path: Path, real_file: tuple[FileLayer, int]) -> None:
    files, fd = real_file
    evict([tmp_path / "a"])
    files.read_ahead(fd, MIB, MIB)
    files.pread(fd, MIB, MIB)  # waits for it
    assert len(files.pread_now(fd, MIB, MIB) or b"") == MIB


def test_beyond_the_end_of_a_file_there_is_nothing_now(real_file: tuple[FileLayer, int]) -> None:
    files, fd = real_file
    assert files.pread_now(fd, 10, 4 * MIB) is None


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_system_that_cannot_tell_reads_as_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuses(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    files = FileLayer()
    fd = files.open(tmp_path / "a", create=True)
    files.pwrite(fd, b"0123456789", 0)
    monkeypatch.setattr(os, "preadv", refuses)
    assert files.pread_now(fd, 5, 2) == b"23456"
    assert not files.sees_memory
    monkeypatch.delattr(os, "preadv")
    assert files.pread_now(fd, 5, 2) == b"23456"
    monkeypatch.delattr(os, "posix_fadvise")
    files.read_ahead(fd, 0, 10)
    files.close(fd)


def test_a_bad_sector_is_an_error_also_without_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files = FileLayer()
    monkeypatch.setattr(os, "preadv", fails)
    with pytest.raises(OSError, match="Input/output"):
        files.pread_now(0, 5, 0)
    assert files.sees_memory
