"""Files that are read or written in one call: the order of the steps, and nothing left open."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.disk.files import FileLayer
from gateway.store.disk.small_files import file_size, read_file, replace_file, write_file


class _Counted(FileLayer):
    """Counts open descriptors, and fails a sync on demand."""

    def __init__(self) -> None:
        self.opened = 0
        self.fails = False
        self.steps: list[str] = []

    def open(self, path: Path, *, create: bool = False) -> int:
        self.opened += 1
        return super().open(path, create=create)

    def close(self, fd: int) -> None:
        self.opened -= 1
        super().close(fd)

    def fdatasync(self, fd: int) -> None:
        self.steps.append("sync")
        if self.fails:
            raise OSError("broken")
        super().fdatasync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self.steps.append(f"rename {source.name}")
        super().rename(source, target)

    def fsync_directory(self, path: Path) -> None:
        self.steps.append("sync names")
        super().fsync_directory(path)


def test_a_file_is_read_from_a_position_and_no_further_than_its_end(tmp_path: Path) -> None:
    files, path = _Counted(), tmp_path / "some"
    path.write_bytes(b"0123456789")
    assert file_size(files, path) == 10
    assert read_file(files, path, 4) == b"0123"
    assert read_file(files, path, 100, 8) == b"89"
    assert files.opened == 0
    with pytest.raises(FileNotFoundError):
        read_file(files, tmp_path / "missing", 1)


def test_a_written_file_has_nothing_of_its_former_content(tmp_path: Path) -> None:
    files, path = _Counted(), tmp_path / "some"
    path.write_bytes(b"a longer content")
    write_file(files, path, b"new")
    assert path.read_bytes() == b"new"
    assert files.steps == ["sync"]
    assert files.opened == 0


def test_a_file_is_replaced_when_its_new_content_is_on_disk(tmp_path: Path) -> None:
    files, path = _Counted(), tmp_path / "some"
    path.write_bytes(b"old")
    (tmp_path / "some.new").write_bytes(b"what a killed process left, which is longer")
    replace_file(files, path, b"new")
    assert path.read_bytes() == b"new"
    assert files.steps == ["sync", "rename some.new", "sync names"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["some"]
    files.fails = True
    with pytest.raises(OSError, match="broken"):
        replace_file(files, path, b"newer")
    assert path.read_bytes() == b"new"
    assert files.opened == 0
