"""A bounded set of descriptors that outlive their place in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.open_files import OpenFiles
from gateway.tests.store.small_store import Disk


def test_the_file_used_longest_ago_is_closed_when_there_are_too_many(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 2)
    for name in "ab":
        files.open(name, tmp_path / name, create=True)
    assert files.get("a") is not None
    files.open("c", tmp_path / "c", create=True)
    assert [files.get(name) is not None for name in "abc"] == [True, False, True]
    assert sorted(path.name for path in disk.open_fds.values()) == ["a", "c"]


def test_whoever_holds_a_file_keeps_its_descriptor(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 1)
    held = files.open("a", tmp_path / "a", create=True)
    disk.pwrite(held.fd, b"x", 0)
    files.open("b", tmp_path / "b", create=True)
    files.forget("b")
    files.clear()
    assert disk.pread(held.fd, 1, 0) == b"x"
    del held
    assert (len(files), disk.open_fds) == (0, {})


def test_a_file_that_is_missing_is_an_error_and_takes_no_place(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), 1)
    with pytest.raises(FileNotFoundError):
        files.open("a", tmp_path / "a")
    assert len(files) == 0
