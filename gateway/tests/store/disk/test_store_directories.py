"""Directories are made so that a power failure cannot take them away: each new name is synced in its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.disk.entry_kinds import make_directories
from gateway.store.disk.paths import StorePaths
from gateway.tests.store.small_store import Disk


def synced(disk: Disk) -> set[Path]:
    return {path for operation, path in disk.calls if operation == "sync"}


def test_the_parent_of_every_new_directory_is_synced(tmp_path: Path) -> None:
    disk = Disk()
    root = tmp_path / "new" / "store"
    make_directories(disk, StorePaths(root, tmp_path / "other" / "log"))
    assert {tmp_path, tmp_path / "new", root, tmp_path / "other"} <= synced(disk)
    assert sorted(path.name for path in root.iterdir()) == ["consumequeue", "deleted", "index"]


def test_names_that_a_kill_left_unsynced_become_durable(tmp_path: Path) -> None:
    make_directories(Disk(), StorePaths(tmp_path))
    disk = Disk()
    make_directories(disk, StorePaths(tmp_path))
    assert {tmp_path, tmp_path / "commitlog"} <= synced(disk)


def test_a_directory_above_the_store_need_not_be_readable(tmp_path: Path) -> None:
    make_directories(Disk(), StorePaths(tmp_path / "store"))

    def fault(operation: str, path: Path) -> None:
        if operation == "sync" and path == tmp_path:
            raise PermissionError(13, "Permission denied", str(path))

    make_directories(Disk(fault), StorePaths(tmp_path / "store"))


def test_a_directory_of_ours_that_cannot_be_synced_is_an_error(tmp_path: Path) -> None:
    disk = Disk()
    disk.fail("sync", "commitlog")
    with pytest.raises(OSError, match="Input/output error"):
        make_directories(disk, StorePaths(tmp_path / "store"))
