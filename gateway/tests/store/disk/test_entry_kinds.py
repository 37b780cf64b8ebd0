"""Names of a store directory that stand for something else than they should."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.store.disk.entry_kinds import misfits, refuse_misfits
from gateway.store.disk.files import EntryKind, FileLayer
from gateway.store.errors import ForeignFile
from gateway.tests.store.small_store import opened, put


def test_a_served_directory_and_a_missing_one_have_no_misfits(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    put(store, b"message")
    assert misfits(FileLayer(), tmp_path / "s") == []
    store.close()
    assert misfits(FileLayer(), tmp_path / "s") == []
    refuse_misfits(FileLayer(), tmp_path / "nowhere")


def test_misfits_are_named_with_what_belongs_there(tmp_path: Path) -> None:
    (tmp_path / "index").touch()
    (tmp_path / "abort").mkdir()
    (tmp_path / "config").mkdir()
    os.mkfifo(tmp_path / "config" / "topics.json.bak")
    (tmp_path / "config" / "notes").mkdir()
    assert [(found.path.name, found.what) for found in misfits(FileLayer(), tmp_path)] == [
        ("index", "is a file, a directory belongs there"),
        ("abort", "is a directory, a file belongs there"),
        ("topics.json.bak", "is a pipe, socket or device, a file belongs there"),
    ]
    with pytest.raises(ForeignFile, match=f"'rocketmq-gateway store repair {tmp_path} --apply'"):
        refuse_misfits(FileLayer(), tmp_path)


def test_a_link_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "index").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "config").symlink_to(tmp_path / "nowhere")
    assert misfits(FileLayer(), tmp_path) == []
    assert FileLayer().kind(tmp_path / "config") is EntryKind.MISSING
