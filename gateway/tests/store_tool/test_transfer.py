"""``store export`` and ``store import``: sparse copies that are checked and overwrite nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.settings.transaction import TransactionStateStore
from gateway.store.durability.checkpoint import MARKS_AT
from gateway.store_tool.errors import CannotRun
from gateway.store_tool.files import sparse_copy
from gateway.tests.store.small_store import message, opened, put, read_all
from gateway.tests.store_tool.small_directory import COUNT, flip, log_file, records, run, tree
from gateway.transaction.state_stores.remembered import Remembered, RememberedStore

OURS = ("gateway-queues", "gateway-index", "lock", "abort")


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_copy_is_whole_sparse_and_served(directory: Path, tmp_path: Path, command: str) -> None:
    before = tree(directory)
    target = tmp_path / "copy"
    result = run(command, directory, target)
    assert result.exit_code == 0, result.output
    assert f"{COUNT} messages copied to {target} and read back" in result.stdout
    assert "Note: whoever serves it needs the setting mappedFileSizeCommitLog=8192" in result.stdout
    copied = tree(target)
    for name, (size, modified, content) in before.items():
        if name in OURS:
            assert name not in copied
        elif name == "checkpoint":
            assert copied[name][2][:40] == content[:40]
            assert not copied[name][2][MARKS_AT:].strip(b"\x00")
        else:
            assert copied[name] == (size, modified, content), name
    assert tree(directory) == before
    assert run("verify", target).exit_code == 0
    store = opened(target)
    assert len(read_all(store, "orders", 0)) == 28
    store.close()


def test_holes_stay_holes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.write(b"begin")
        file.truncate(64 << 20)
        file.seek(40 << 20)
        file.write(b"middle")
    sparse_copy.copy_sparsely(source, target, lambda _: None)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks * 512 < 1 << 20


def test_a_copy_that_does_not_read_back_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"content")
    monkeypatch.setattr(sparse_copy, "_checksum", lambda *_: 0)
    with pytest.raises(CannotRun, match="do not trust the disk"):
        sparse_copy.copy_sparsely(source, tmp_path / "target", lambda _: None)


def test_nothing_is_overwritten(directory: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    (target / "file").touch()
    inside = directory / "copy"
    for path, text in (
        (target, f"{target} exists and is not empty; nothing is overwritten: give a new directory"),
        (inside, f"{inside} lies in {directory}; give a directory elsewhere"),
        (tmp_path / "a" / "b", f"{tmp_path / 'a'} does not exist; make it first"),
    ):
        result = run("export", directory, path)
        assert result.exit_code == 2
        assert result.stderr == f"Error: {text}\n"
    left = tmp_path / "other.partial"
    left.mkdir()
    assert "is left of a copy that was interrupted; remove it" in run("export", directory, tmp_path / "other").stderr


def test_an_empty_target_is_taken(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    assert run("import", directory, tmp_path / "copy").exit_code == 0


def test_a_damaged_directory_is_not_copied(directory: Path, tmp_path: Path) -> None:
    position, _ = records(directory)[4]
    flip(log_file(directory), position + 92)
    result = run("export", directory, tmp_path / "copy")
    assert result.exit_code == 2
    assert f"a damaged directory is not copied: run rocketmq-gateway store repair {directory} first" in result.stderr
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("store", list(TransactionStateStore))
def test_transactions_that_apache_rocketmq_cannot_find_are_refused_with_the_fix(
    directory: Path, tmp_path: Path, store: TransactionStateStore
) -> None:
    RememberedStore(directory / "transaction").save(Remembered(store=store, identity="me"))
    result = run("export", directory, tmp_path / "copy")
    if store is TransactionStateStore.QUEUE:
        assert result.exit_code == 0, result.output
        return
    assert result.exit_code == 2
    assert f"keeps its transactions in the state store '{store}'" in result.stderr
    assert f"rocketmq-gateway store migrate-transactions {directory} --to queue --apply" in result.stderr
    assert not (tmp_path / "copy").exists()


def test_a_directory_that_lost_the_name_of_its_state_store_is_refused(directory: Path, tmp_path: Path) -> None:
    (directory / "transaction").mkdir()
    (directory / "transaction" / "tablemark").touch()
    result = run("export", directory, tmp_path / "copy")
    assert result.exit_code == 2
    assert "state-store is missing, but there is tablemark" in result.stderr


def test_what_4_9_cannot_read_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path / "data")
    put(store, message(b"body", topic="%RETRY%" + "g" * 150))
    store.close()
    result = run("export", tmp_path / "data", tmp_path / "copy", "--for", "4.9")
    assert result.exit_code == 2
    assert "1 messages are of topics longer than 127 bytes" in result.stderr
    assert run("export", tmp_path / "data", tmp_path / "copy").exit_code == 0


def test_what_the_gateway_does_not_have_is_refused_and_can_be_left_behind(directory: Path, tmp_path: Path) -> None:
    (directory / "batchconsumequeue" / "b" / "0").mkdir(parents=True)
    (directory / "batchconsumequeue" / "b" / "0" / f"{0:020d}").write_bytes(b"x")
    database = directory / "config" / "topics"
    database.mkdir()
    (database / "CURRENT").touch()
    result = run("import", directory, tmp_path / "copy")
    assert result.exit_code == 2
    assert f"topics with batch consume queues ({directory / 'batchconsumequeue'})" in result.stderr
    assert f"settings in a RocksDB database ({database}): export them to JSON files first" in result.stderr
    result = run("import", directory, tmp_path / "copy", "--accept-loss")
    assert result.exit_code == 0
    assert "Note: left behind: topics with batch consume queues" in result.stdout
    assert not (tmp_path / "copy" / "batchconsumequeue").exists()


def test_a_directory_of_a_killed_server_stays_one(directory: Path, tmp_path: Path) -> None:
    (directory / "abort").write_bytes(b"17")
    assert run("export", directory, tmp_path / "copy").exit_code == 0
    assert (tmp_path / "copy" / "abort").exists()


def test_too_little_space_is_said_before(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    class Full:
        def __init__(self, path: Path) -> None:
            values = real(path)
            self.f_blocks, self.f_bfree, self.f_frsize, self.f_bavail = values.f_blocks, 0, values.f_frsize, 0

    monkeypatch.setattr(os, "statvfs", Full)
    result = run("export", directory, tmp_path / "copy")
    assert result.exit_code == 2
    assert " has 0 bytes of space, the copy takes " in result.stderr
    assert not (tmp_path / "copy.partial").exists()
