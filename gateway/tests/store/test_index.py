"""Messages by key: collisions, ranges of time, rebuilding what is lost or damaged."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import (
    SMALL,
    START_MS,
    Clock,
    Disk,
    Executor,
    killed,
    message,
    opened,
    overwrite,
    put,
)
from wire.message.java_hash import index_key_hash

EVER = 1 << 60


def _found(store: MessageStore, key: str, *, topic: str = "T", count: int = 64) -> list[bytes]:
    return [found.body for found in store.query_by_key(topic, key, count, 0, EVER)]


def _fill(store: MessageStore, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"k{number % 7} all"))


def _check(store: MessageStore, count: int) -> None:
    assert [_found(store, f"u{number}") for number in range(count)] == [[b"%d" % number] for number in range(count)]
    assert len(_found(store, "all", count=1000)) == count
    assert _found(store, "k3") == [b"%d" % number for number in reversed(range(count)) if number % 7 == 3]


def test_messages_are_found_by_unique_key_and_by_each_of_their_keys_newest_first(tmp_path: Path) -> None:
    store = opened(tmp_path)
    _fill(store, 50)
    _check(store, 50)
    assert _found(store, "unknown") == []
    assert _found(store, "all", topic="Other") == []
    assert len(_found(store, "all", count=3)) == 3
    assert len(list((tmp_path / "index").iterdir())) > 1, "the index went on in further files"


def test_keys_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    assert index_key_hash("T", "Aa") == index_key_hash("T", "BB")
    store = opened(tmp_path)
    put(store, message(b"1", KEYS="Aa"))
    put(store, message(b"2", KEYS="BB"))
    assert _found(store, "Aa") == [b"1"]
    assert _found(store, "BB") == [b"2"]


def test_a_message_with_a_key_twice_is_found_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(b"1", UNIQ_KEY="k", KEYS="k  k"))
    assert _found(store, "k") == [b"1"]


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(0, 2500, [2, 1, 0]), (1000, 1000, [1]), (1001, 1999, []), (2000, 9000, [2]), (-9, -1, []), (2001, 9000, [])],
)
def test_a_range_of_time_is_exact_to_the_millisecond(tmp_path: Path, begin: int, end: int, expected: list[int]) -> None:
    clock = Clock()
    store = opened(tmp_path, clock=clock)
    for number in range(3):
        clock.now_ms = START_MS + 1000 * number
        put(store, message(b"%d" % number, KEYS="k"))
    found = store.query_by_key("T", "k", 64, START_MS + begin, START_MS + end)
    assert [int(message.body) for message in found] == expected


def test_rolled_back_messages_have_no_keys_and_prepared_ones_do(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(b"rollback", sys_flag=12, KEYS="k"))
    put(store, message(b"prepared", sys_flag=4, KEYS="k"))
    assert _found(store, "k") == [b"prepared"]


def test_a_query_finds_what_waits_for_the_index(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    store.append(message(b"1", KEYS="k"), lambda _: None)
    executor.run_turn()
    executor.work()()
    assert store._index.backlog == 1
    assert _found(store, "k") == [b"1"]
    executor.run()
    assert _found(store, "k") == [b"1"]


def test_more_than_the_backlog_holds_is_read_from_the_log_again(tmp_path: Path) -> None:
    executor = Executor()
    settings = replace(SMALL, max_index_backlog=10)
    store = opened(tmp_path, settings, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    for number in range(40):
        store.append(message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"k{number % 7} all"), lambda _: None)
        if number % 6 == 0:
            executor.run_turn()
            if executor.threads:
                executor.work()()
    executor.run()
    _check(store, 40)


@pytest.mark.parametrize("kill", [False, True])
def test_the_index_survives_a_restart(tmp_path: Path, kill: bool) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    _fill(store, 20)
    store.flush()
    _fill(store, 20, 20)
    if kill:
        directory = killed(directory)
    else:
        store.close()
    store = opened(directory)
    _check(store, 40)
    _fill(store, 20, 40)
    _check(store, 60)


@pytest.mark.parametrize("lost", ["all", "newest"])
@pytest.mark.parametrize("kill", [False, True])
def test_lost_index_files_are_rebuilt(tmp_path: Path, lost: str, kill: bool) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    _fill(store, 40)
    store.flush()
    if kill:
        directory = killed(directory)
    else:
        store.close()
    names = sorted((directory / "index").iterdir())
    for path in names if lost == "all" else names[-1:]:
        path.unlink()
    _check(opened(directory), 40)


def test_a_damaged_index_header_is_rebuilt(tmp_path: Path) -> None:
    store = opened(tmp_path)
    _fill(store, 10)
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    overwrite(path, 32, b"\xff" * 8)
    store = opened(tmp_path)
    _check(store, 10)


def test_an_index_file_of_another_shape_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    foreign = tmp_path / "index" / "20200101000000000"
    foreign.write_bytes(b"\x00" * 100)
    store = opened(tmp_path)
    _fill(store, 10)
    _check(store, 10)
    assert foreign.read_bytes() == b"\x00" * 100


def test_index_files_without_marks_are_continued_as_another_broker_left_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    _fill(store, 30)
    store.close()
    overwrite(tmp_path / "checkpoint", 2048, bytes(2048))
    store = small = opened(tmp_path)
    assert small._index.scanned > 0, "what the files know is not read again"
    _fill(store, 10, 30)
    _check(store, 40)


def test_an_index_header_without_its_slots_is_not_believed_after_a_kill(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    disk = Disk()
    store = opened(directory, disk=disk)
    _fill(store, 3)
    store.flush()
    _fill(store, 3, 3)  # in the same millisecond
    writes: list[int] = []

    def kill_before_the_slots(operation: str, path: Path) -> None:
        if operation == "write" and path.parent.name == "index":
            writes.append(1)
            if len(writes) == 3:
                raise OSError(errno.EIO, "killed here")

    disk.fault = kill_before_the_slots
    store.flush()
    _check(opened(killed(directory)), 6)


def test_a_flush_of_the_index_that_failed_is_made_up_for(tmp_path: Path) -> None:
    for part in ("index", "consumequeue"):
        directory = tmp_path / part
        disk = Disk()
        store = opened(directory, replace(SMALL, max_hash_slot_num=4000), disk=disk)
        _fill(store, 10)
        disk.fail("sync", f"/{part}/", errno.ENOSPC)
        assert store.flush() is False
        disk.fault = None
        put(store, message(b"more", KEYS="more"))
        assert store.flush() is True
        store.close()
        store = opened(directory, replace(SMALL, max_hash_slot_num=4000))
        assert not store._index.backlog
        _check(store, 10)


def test_an_index_behind_the_first_file_kept_goes_on_with_what_is_left(tmp_path: Path) -> None:
    executor = Executor()
    settings = replace(SMALL, max_index_backlog=1)
    store = opened(tmp_path, settings, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    for number in range(12):
        store.append(message(b"%d" % number * 1000, KEYS=f"k{number}"), lambda _: None)
    executor.run_turn()
    executor.work()()
    assert store._index.backlog
    store._log.files.remove_first()
    assert len(_found(store, "k11")) == 1
    assert _found(store, "k0") == []


def test_a_switched_off_index_finds_nothing_and_makes_no_file(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, message_index_enable=False))
    _fill(store, 3)
    assert _found(store, "all") == []
    store.close()
    assert list((tmp_path / "index").iterdir()) == []
