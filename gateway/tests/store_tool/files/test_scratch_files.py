"""The file layer that changes nothing of what it reads."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from gateway.store_tool.files.scratch_files import ScratchFiles


@pytest.fixture
def real(tmp_path: Path) -> Path:
    directory = tmp_path / "real"
    directory.mkdir()
    (directory / "a").write_bytes(b"content")
    return directory


@pytest.fixture
def files(tmp_path: Path) -> ScratchFiles:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return ScratchFiles(scratch)


def test_what_is_written_is_read_again_by_every_descriptor_and_the_file_stays(real: Path, files: ScratchFiles) -> None:
    first, second = files.open(real / "a"), files.open(real / "a")
    files.pwrite(first, b"C", 0)
    files.pwritev(second, [b"N", b"T"], 3)
    files.truncate(second, 6)
    third = files.open(real / "a")
    assert [files.pread(fd, 99, 0) for fd in (first, second, third)] == [b"ConNTn"] * 3
    assert (files.size(third), files.pread_now(third, 6, 0)) == (6, b"ConNTn")
    for fd in (first, second, third):
        files.fdatasync(fd)
        files.close(fd)
    assert (real / "a").read_bytes() == b"content"


def test_a_descriptor_of_what_is_only_read_cannot_write(real: Path, files: ScratchFiles) -> None:
    fd = files.open(real / "a")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(fd, b"x", 0)
    assert files.lock(fd)
    assert files.pread(fd, 99, 0) == b"content"
    files.close(fd)


def test_names_are_made_moved_and_removed_only_here(real: Path, files: ScratchFiles) -> None:
    made, moved = real / "new" / "b", real / "new" / "c"
    files.make_directory(made.parent)
    files.close(files.open(made, create=True))
    assert files.list(made.parent) == ["b"]
    files.rename(made, moved)
    files.fsync_directory(made.parent)
    assert (files.list(made.parent), files.exists(made), files.exists(moved)) == (["c"], False, True)
    assert files.modified_at_ms(moved) > 0
    assert [ns > 0 for ns in files.modified_all(real, ["a", "b"])] == [True, False]
    files.unlink(real / "a")
    files.remove_directory(real)
    assert (files.list(real), files.exists(real / "a")) == ([], False)
    assert files.modified_all(real, ["a"]) == [-1]
    with pytest.raises(FileNotFoundError):
        files.open(real / "a")
    with pytest.raises(FileNotFoundError):
        files.rename(real / "a", moved)
    fd = files.open(real / "a", create=True)
    assert files.size(fd) == 0
    files.close(fd)
    assert [path.name for path in real.iterdir()] == ["a"]
    assert (real / "a").read_bytes() == b"content"


def test_a_database_is_copied_with_what_was_not_moved_into_it_yet(real: Path, files: ScratchFiles) -> None:
    connection = sqlite3.connect(real / "db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (n)")
    connection.execute("INSERT INTO t VALUES (7)")
    copy = sqlite3.connect(files.copied_database(real / "db"))
    assert copy.execute("SELECT n FROM t").fetchall() == [(7,)]
    copy.close()
    connection.close()
    assert not files.copied_database(real / "none").exists()
