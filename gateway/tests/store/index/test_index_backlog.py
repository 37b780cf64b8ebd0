"""Messages that wait for the index: searches find them while they wait, and a flush brings them to the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.index import index
from gateway.store.index.index import FLUSH_INTERVAL_MS, LEAST_SLICE, MAX_SLICE_ENTRIES
from gateway.store.message_store import MessageStore
from gateway.tests.store.keyed_messages import EVER, bodies_with_key, check, fill
from gateway.tests.store.small_store import SMALL, Clock, Executor, killed, message, opened, put, remove_first


def test_a_query_finds_what_waits_for_the_index(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    store.append(message(b"1", KEYS="k"), lambda _: None)
    executor.run_turn()
    executor.work()()  # written
    executor.work()()  # on disk
    assert store._index.backlog == 1
    assert bodies_with_key(store, "k") == [b"1"]
    executor.run()
    assert bodies_with_key(store, "k") == [b"1"]


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
    check(store, 40)


def test_an_index_behind_the_first_file_kept_goes_on_with_what_is_left(tmp_path: Path) -> None:
    executor = Executor()
    settings = replace(SMALL, max_index_backlog=1)
    store = opened(tmp_path, settings, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    for number in range(12):
        store.append(message(b"%d" % number * 1000, KEYS=f"k{number}"), lambda _: None)
    executor.run_turn()
    executor.work()()  # written
    executor.work()()  # on disk
    assert store._index.backlog
    remove_first(store._log.files)
    assert len(bodies_with_key(store, "k11")) == 1
    assert bodies_with_key(store, "k0") == []


def waiting_store(directory: Path, count: int) -> tuple[Executor, MessageStore]:
    executor = Executor()
    store = opened(directory, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    for number in range(count):
        store.append(message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"k{number % 7} all"), lambda _: None)
    executor.run()
    return executor, store


@pytest.mark.parametrize("backlog", [100, 1])
def test_messages_with_thousands_of_keys_are_indexed_a_few_at_a_time(tmp_path: Path, backlog: int) -> None:
    """With a small backlog they are read from the log again."""
    executor = Executor()
    settings = replace(
        SMALL,
        max_index_backlog=backlog,
        max_index_num=200_000,
        mapped_file_size_commit_log=1 << 20,
        max_message_size=1 << 20,
    )
    store = opened(tmp_path, settings, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    keys = " ".join(f"{number:x}" for number in range(4_000))
    for number in range(20):
        store.append(message(b"%d" % number, KEYS=f"k{number} {keys}"), lambda _: None)
    executor.run_turn()
    executor.work()()  # written
    executor.work()()  # on disk
    built: list[int] = []
    while count := store._index.build(512):
        built.append(count)
    assert sum(built) == 20
    assert max(built) <= MAX_SLICE_ENTRIES // 2_000
    assert bodies_with_key(store, "k19") == [b"19"]
    assert len(bodies_with_key(store, "f9f")) == 20


def test_a_store_that_is_closed_leaves_no_entries_to_be_made(tmp_path: Path) -> None:
    settings = replace(SMALL, max_index_num=200_000, mapped_file_size_commit_log=1 << 20, max_message_size=1 << 20)
    store = opened(tmp_path, settings)
    keys = " ".join(f"{number:x}" for number in range(4_000))
    for number in range(20):
        put(store, message(b"%d" % number, KEYS=f"k{number} {keys}"))
    assert store._index.backlog == 20
    assert store.close()
    again = opened(tmp_path, settings, soon=Executor().soon)
    assert again._index.backlog == 0
    assert bodies_with_key(again, "k19") == [b"19"]


def store_with_its_file(directory: Path) -> tuple[Executor, MessageStore]:
    executor = Executor()
    store = opened(directory, soon=executor.soon, in_thread=executor.in_thread)
    store.append(message(b"makes the file"), lambda _: None)
    executor.run()
    return executor, store


def words(number: int) -> str:
    """Five KEYS of a message."""
    return " ".join(f"k{number}-{word}" for word in range(5))


def test_a_few_messages_wait_for_more_and_many_do_not(tmp_path: Path) -> None:
    _, few = waiting_store(tmp_path / "few", LEAST_SLICE - 1)
    _, many = waiting_store(tmp_path / "many", LEAST_SLICE)
    assert (few._index.backlog, many._index.backlog) == (LEAST_SLICE - 1, 0)
    check(few, LEAST_SLICE - 1)
    check(many, LEAST_SLICE)


def test_a_flush_takes_the_few_along(tmp_path: Path) -> None:
    _, store = waiting_store(tmp_path / "s", 10)
    assert store.flush()
    assert store._index.backlog == 0
    store = opened(killed(tmp_path / "s"))
    assert store._index.backlog == 0, "nothing is read from the log again"
    check(store, 10)


def test_large_messages_that_wait_are_read_from_the_log_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_BACKLOG_BYTES", 1000)
    executor, store = store_with_its_file(tmp_path)
    for number in range(3):
        store.append(message(b"x" * 500 + b"%d" % number, UNIQ_KEY=f"u{number}"), lambda _: None)
        executor.run_turn()
        executor.work()()
    assert store._index._waiting.message_count == 1
    assert [len(bodies_with_key(store, f"u{number}")) for number in range(3)] == [1, 1, 1]


def test_a_message_behind_one_with_many_keys_is_read_from_the_log_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_BACKLOG_ENTRIES", 5)
    executor, store = store_with_its_file(tmp_path)
    for number in range(3):
        store.append(message(b"%d" % number, KEYS=words(number)), lambda _: None)
        executor.run_turn()
        executor.work()()
    assert store._index._waiting.message_count == 1
    assert [len(bodies_with_key(store, f"k{number}-4")) for number in range(3)] == [1, 1, 1]


def test_messages_of_one_batch_behind_many_keys_are_read_from_the_log_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_BACKLOG_ENTRIES", 12)
    executor, store = store_with_its_file(tmp_path)
    for number in range(5):
        store.append(message(b"%d" % number, KEYS=words(number)), lambda _: None)
    executor.run_turn()
    executor.work()()
    assert store._index._waiting.count == 15
    executor.run()
    assert store._index.backlog == 0
    assert [len(bodies_with_key(store, f"k{number}-4")) for number in range(5)] == [1] * 5


def test_a_flush_by_interval_leaves_the_index_out_until_it_is_due(tmp_path: Path) -> None:
    clock = Clock()
    directory = tmp_path / "s"
    store = opened(directory, clock=clock)
    fill(store, 10)
    clock.now_ms += 100_000
    assert store.flush_due(clock.now_ms)
    mark = store._checkpoint.marks
    assert mark is not None
    fill(store, 10, 10)
    clock.now_ms += 5_000
    store._flushing.flush(due_only=True)
    assert store._checkpoint.marks is not None
    assert store._checkpoint.marks.index == mark.index
    assert store._checkpoint.marks.queues > mark.queues
    check(opened(killed(directory)), 20)
    clock.now_ms += FLUSH_INTERVAL_MS
    store._flushing.flush(due_only=True)
    assert store._checkpoint.marks.index.scanned == store._index.scanned
    check(opened(killed(directory, 1)), 20)


def test_many_new_entries_do_not_wait_for_the_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    store.flush()
    assert not store._index.flush_is_due
    monkeypatch.setattr(index, "FLUSH_ENTRIES", 20)
    fill(store, 10)
    store.query_by_key("T", "all", 1, 0, EVER)
    assert store._index.flush_is_due
