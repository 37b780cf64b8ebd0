"""The index after a kill, a power failure, lost and damaged files: nothing that was stored is missed."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.durability.checkpoint import MARKS_AT
from gateway.store.errors import StoreError
from gateway.store.message_store import MessageStore
from gateway.tests.store.keyed_messages import bodies_with_key, check, fill
from gateway.tests.store.small_store import SMALL, Disk, Executor, killed, message, opened, overwrite, put
from wire.disk.index_file import ENTRY, IndexHead, IndexShape

ONE_FILE = replace(SMALL, max_hash_slot_num=3000, max_index_num=2000)
"""An index file takes all keys of a test."""


@pytest.mark.parametrize("kill", [False, True])
def test_the_index_survives_a_restart(tmp_path: Path, kill: bool) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    fill(store, 20)
    store.flush()
    fill(store, 20, 20)
    if kill:
        directory = killed(directory)
    else:
        store.close()
    store = opened(directory)
    check(store, 40)
    fill(store, 20, 40)
    check(store, 60)


@pytest.mark.parametrize("lost", ["all", "newest"])
@pytest.mark.parametrize("kill", [False, True])
def test_lost_index_files_are_rebuilt(tmp_path: Path, lost: str, kill: bool) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    fill(store, 40)
    store.flush()
    if kill:
        directory = killed(directory)
    else:
        store.close()
    names = sorted((directory / "index").iterdir())
    for path in names if lost == "all" else names[-1:]:
        path.unlink()
    check(opened(directory), 40)


def test_a_damaged_index_header_is_rebuilt(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 10)
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    overwrite(path, 32, b"\xff" * 8)
    store = opened(tmp_path)
    check(store, 10)


def test_an_index_file_of_another_shape_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    foreign = tmp_path / "index" / "20200101000000000"
    foreign.write_bytes(b"\x00" * 100)
    store = opened(tmp_path)
    fill(store, 10)
    check(store, 10)
    assert foreign.read_bytes() == b"\x00" * 100


def test_index_files_without_marks_are_continued_as_another_broker_left_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 30)
    store.close()
    overwrite(tmp_path / "checkpoint", MARKS_AT, bytes(256))
    store = small = opened(tmp_path)
    assert small._index.scanned > 0, "what the files know is not read again"
    fill(store, 10, 30)
    check(store, 40)


def test_an_index_header_without_its_slots_is_not_believed_after_a_kill(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    disk = Disk()
    store = opened(directory, disk=disk)
    fill(store, 3)
    store.flush()
    fill(store, 3, 3)  # in the same millisecond
    writes: list[int] = []

    def kill_before_the_slots(operation: str, path: Path) -> None:
        if operation == "write" and path.parent.name == "index":
            writes.append(1)
            if len(writes) == 3:
                raise OSError(errno.EIO, "killed here")

    disk.fault = kill_before_the_slots
    store.flush()
    check(opened(killed(directory)), 6)


def flushed_before_the_last_30(directory: Path, disk: Disk) -> MessageStore:
    """A store of 130 messages in one index file, flushed when it had 100."""
    store = opened(directory, ONE_FILE, disk=disk)
    fill(store, 100)
    store.flush()
    fill(store, 30, 100)
    return store


def check_all_130_are_found_and_more_follow(directory: Path) -> None:
    """In the next life, and after an orderly restart with nothing left to read again."""
    store = opened(directory, ONE_FILE)
    check(store, 130)
    fill(store, 100, 130)
    store.close()
    store = opened(directory, ONE_FILE)
    assert not store._index.backlog
    check(store, 230)
    fill(store, 50, 230)
    check(store, 280)


@pytest.mark.parametrize("torn", [1, 10, 89, 90])
def test_entries_that_a_power_failure_took_are_not_missed(tmp_path: Path, torn: int) -> None:
    """The header reached the disk, and not all of the 90 entries it tells of; slots come later, so none did."""
    directory = tmp_path / "s"
    disk = Disk()
    store = flushed_before_the_last_30(directory, disk)
    disk.fail("sync", "/index/", errno.ENOSPC)
    assert not store.flush()
    image = killed(directory)
    (path,) = (image / "index").iterdir()
    end = IndexHead.parse(path.read_bytes()).next_entry
    assert end == 1 + 130 * 3
    overwrite(path, IndexShape(3000, 2000).entry_position(end - torn), bytes(ENTRY.size * torn))
    check_all_130_are_found_and_more_follow(image)


@pytest.mark.parametrize("write", range(1, 8))
def test_a_flush_cut_short_anywhere_costs_only_what_came_since_the_one_before(tmp_path: Path, write: int) -> None:
    directory = tmp_path / "s"
    disk = Disk()
    store = flushed_before_the_last_30(directory, disk)
    writes: list[int] = []

    def kill(operation: str, path: Path) -> None:
        if operation in ("write", "sync") and (path.parent.name == "index" or path.name == "checkpoint"):
            writes.append(1)
            if len(writes) == write:
                raise OSError(errno.ENOSPC, "killed here")

    disk.fault = kill
    store.flush()
    image = killed(directory)
    if len(writes) >= write:
        idle = opened(killed(directory, 1), ONE_FILE, soon=Executor().soon)
        assert len(list(idle._index._read_from(idle._index.scanned))) in (0, 30)
    check_all_130_are_found_and_more_follow(image)


@pytest.mark.parametrize("write", range(1, 5))
def test_a_roll_back_cut_short_anywhere_is_made_once_more(tmp_path: Path, write: int) -> None:
    directory = tmp_path / "s"
    disk = Disk()
    store = flushed_before_the_last_30(directory, disk)
    disk.fail("write", "/checkpoint", errno.ENOSPC)
    assert not store.flush(), "the index is written, and the mark that tells of it is not"
    image = killed(directory)
    disk = Disk()
    writes: list[str] = []

    def kill(operation: str, path: Path) -> None:
        if path.parent.name == "index":
            writes.append(operation)
            if len(writes) == write:
                raise OSError(errno.EIO, "killed here")

    disk.fault = kill
    with pytest.raises(StoreError):
        opened(image, ONE_FILE, disk=disk)
    assert writes == ["write", "sync", "write", "sync"][:write]
    check(opened(killed(image), ONE_FILE), 130)


def test_files_made_for_entries_that_a_kill_took_cost_only_what_came_since_the_last_flush(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    fill(store, 30)
    store.flush()
    before = sorted(path.name for path in (directory / "index").iterdir())
    fill(store, 70, 30)
    assert bodies_with_key(store, "u99") == [b"99"]
    assert len(list((directory / "index").iterdir())) > len(before) + 1, "made, and nothing is in them"
    idle = opened(killed(directory), soon=Executor().soon)
    assert len(list(idle._index._read_from(idle._index.scanned))) == 70
    assert [file.path.name for file in idle._index.index_files] == before
    check(idle, 100)


def test_files_that_a_start_deletes_are_gone_for_good_before_others_are_made(tmp_path: Path) -> None:
    """Otherwise a power failure brings deleted files back. A start then rolls back the file that the checkpoint
    names, and deletes all later files, also those made in place of the deleted ones.
    """
    directory = tmp_path / "s"
    store = opened(directory)
    fill(store, 21)
    store.flush()
    checkpoint = (directory / "checkpoint").read_bytes()
    fill(store, 60, 21)
    store.flush()
    image = killed(directory)
    (image / "checkpoint").write_bytes(checkpoint)
    disk = Disk()
    store = opened(image, disk=disk)
    check(store, 81)
    store.flush()
    index = image / "index"
    calls = [operation for operation, path in disk.calls if index in (path, path.parent)]
    assert calls.count("unlink") == 3
    last = len(calls) - 1 - calls[::-1].index("unlink")
    assert calls.index("create") > last
    assert calls[last + 1] == "sync"


def test_a_flush_of_the_index_that_failed_is_made_up_for(tmp_path: Path) -> None:
    for part in ("/index/", "gateway-index", "checkpoint"):
        directory = tmp_path / part.strip("/").upper()
        disk = Disk()
        store = opened(directory, replace(SMALL, max_hash_slot_num=4000), disk=disk)
        fill(store, 10)
        disk.fail("write", part, errno.ENOSPC)
        assert store.flush() is False
        disk.fault = None
        put(store, message(b"more", KEYS="more"))
        assert store.flush() is True
        store.close()
        store = opened(directory, replace(SMALL, max_hash_slot_num=4000))
        assert not store._index.backlog
        check(store, 10)


def test_an_index_that_catches_up_asks_for_the_log_before_it_gets_there(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    class Asked(Disk):
        def read_ahead(self, fd: int, offset: int, count: int) -> None:
            asked.append((self.open_fds[fd].name, offset))

    store = opened(tmp_path)
    fill(store, 150)
    store.close()
    for path in (tmp_path / "index").iterdir():
        path.unlink()
    store = opened(tmp_path, disk=Asked())
    check(store, 150)
    logs = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert asked[: len(logs)] == [(name, 0) for name in logs]
    assert len(asked) <= 2 * len(logs), "not for every slice"


def test_slots_that_lead_nowhere_count_as_empty_when_writing_goes_on(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 5)
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    head = path.read_bytes()[:40]
    overwrite(path, 40, b"\x7f\xff\xff\xff\x80\x00\x00\x00" * 8)
    store = opened(tmp_path)
    assert path.read_bytes()[:40] == head
    fill(store, 5, 5)
    assert [bodies_with_key(store, f"u{number}") for number in range(5, 10)] == [
        [b"%d" % number] for number in range(5, 10)
    ]
    store.close()
    entries = path.read_bytes()[40 + 16 * 4 :]
    for number in range(1, IndexHead.parse(path.read_bytes()).next_entry):
        assert ENTRY.unpack_from(entries, number * ENTRY.size)[3] < number, "no circle for Apache's broker"
