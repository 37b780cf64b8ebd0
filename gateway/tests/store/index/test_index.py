"""Messages by key: collisions, ranges of time, kinds of keys."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.index import index
from gateway.store.index.index import LEAST_SLICE, KeyIndex
from gateway.store.index.index_entries import KeyKind
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.store.keyed_messages import EVER, bodies_with_key, check, fill
from gateway.tests.store.small_store import SMALL, START_MS, Clock, Executor, message, opened, put
from wire.disk.index_file import IndexShape
from wire.message.flags import SysFlag
from wire.message.java_hash import index_key_hash, unsigned_hash


def test_messages_are_found_by_unique_key_and_by_each_of_their_keys_newest_first(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 50)
    check(store, 50)
    assert bodies_with_key(store, "unknown") == []
    assert bodies_with_key(store, "all", topic="Other") == []
    assert len(bodies_with_key(store, "all", count=3)) == 3
    assert len(list((tmp_path / "index").iterdir())) > 1, "the index went on in further files"


def test_messages_without_a_key_among_those_with_one_leave_the_others_theirs(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(LEAST_SLICE):
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number:04}"))
        if number % 3 == 0:
            put(store, message(b"op", topic="ops", TAGS="d"))
    assert [bodies_with_key(store, f"u{number:04}") for number in range(LEAST_SLICE)] == [
        [b"%d" % number] for number in range(LEAST_SLICE)
    ]
    assert len(store.query_by_key("ops", "d", 1000, 0, EVER, KeyKind.TAG)) == -(-LEAST_SLICE // 3)


def test_a_message_with_a_key_twice_is_found_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(b"1", UNIQ_KEY="k", KEYS="k  k"))
    assert bodies_with_key(store, "k") == [b"1"]


def test_rolled_back_messages_have_no_keys_and_prepared_ones_do(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(b"rollback", sys_flag=12, KEYS="k"))
    put(store, message(b"prepared", sys_flag=4, KEYS="k"))
    assert bodies_with_key(store, "k") == [b"prepared"]


def test_what_has_no_keys_is_considered_at_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(UNIQ_KEY="rolled back", sys_flag=SysFlag.TRANSACTION_ROLLBACK))
    assert store._index.backlog == 0
    assert store._index.scanned == store.max_commit_log_offset


def test_neighbouring_messages_whose_keys_end_a_file_are_all_found(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, max_index_num=4))  # three keys a file
    for number in range(10):
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"a{number} b{number}", TAGS=f"t{number}"))
    for number in range(10):
        for key in (f"u{number}", f"a{number}", f"b{number}"):
            assert bodies_with_key(store, key) == [b"%d" % number]
        assert len(store.query_by_key("T", f"t{number}", 9, 0, EVER, KeyKind.TAG)) == 1


def test_a_switched_off_index_finds_nothing_and_makes_no_file(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, message_index_enable=False))
    fill(store, 3)
    assert bodies_with_key(store, "all") == []
    store.close()
    assert list((tmp_path / "index").iterdir()) == []


def test_hundreds_of_thousands_of_keys_roll_over_files_and_are_found_after_a_restart(tmp_path: Path) -> None:
    shape, messages = IndexShape(20_000, 60_001), 150_000
    paths = StorePaths(tmp_path)

    def key_index() -> KeyIndex:
        return KeyIndex(FileLayer(), paths, shape, Clock(), read_from=lambda _: [], max_backlog=1 << 20)

    built = key_index()
    results = [
        PutResult(PutStatus.PUT_OK, message(UNIQ_KEY=f"7F000001{number:024X}")).at(None, 0, number * 100, 100, START_MS)
        for number in range(1000)
    ]
    for start in range(0, messages, 1000):
        for number, result in enumerate(results, start):
            result.message.property_map = {"UNIQ_KEY": f"7F000001{number:024X}"}
            result.commit_log_offset, result.stored_at_ms = number * 100, START_MS + number
        built.offer(list(results))
        while built.build(256):
            pass
        if start % 20_000 == 0:
            flush = built.snapshot()
            built.sync(flush)
    assert [file.next_entry - 1 for file in built.index_files] == [60_000, 60_000, 30_000]
    built.sync(built.snapshot())
    loaded = key_index()
    mark = built.snapshot().mark
    loaded.load(clean=True, checkpoint_ms=0, mark=mark, log_min=0, log_end=messages * 100)
    for asked in (built, loaded):
        for number in (0, 1, 59_999, 60_000, 77_777, 119_999, 120_000, 149_999):
            assert list(asked.find("T", f"7F000001{number:024X}", 0, EVER)) == [number * 100]
        assert list(asked.find("T", f"7F000001{messages:024X}", 0, EVER)) == []
    assert loaded.scanned == messages * 100


# -- kinds of keys ----------------------------------------------------------------------------------------------


def test_a_query_may_ask_for_unique_keys_or_tags_only(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(b"1", UNIQ_KEY="one", KEYS="two", TAGS="red"))
    put(store, message(b"2", UNIQ_KEY="two", KEYS="red", TAGS="one"))

    def found(key: str, kind: KeyKind) -> list[bytes]:
        return [found.body for found in store.query_by_key("T", key, 64, 0, EVER, kind)]

    assert found("two", KeyKind.ANY) == [b"2", b"1"]
    assert found("two", KeyKind.UNIQUE) == [b"2"]
    assert found("red", KeyKind.ANY) == [b"2"]
    assert found("red", KeyKind.TAG) == [b"1"]
    assert found("T#red", KeyKind.ANY) == [], "a tag is found as a tag only"
    assert found("red", KeyKind.UNIQUE) == []


def test_the_messages_of_a_tag_are_found_newest_first_across_files(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(100):
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number}", TAGS="even" if number % 2 == 0 else "odd"))
    found = [int(message.body) for message in store.query_by_key("T", "odd", 1000, 0, EVER, KeyKind.TAG)]
    assert found == list(range(99, 0, -2))


# -- collisions and edges ---------------------------------------------------------------------------------------


def test_keys_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    assert index_key_hash("T", "Aa") == index_key_hash("T", "BB")
    store = opened(tmp_path)
    put(store, message(b"1", KEYS="Aa"))
    put(store, message(b"2", KEYS="BB"))
    assert bodies_with_key(store, "Aa") == [b"1"]
    assert bodies_with_key(store, "BB") == [b"2"]


def test_a_thousand_keys_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    keys = ["".join(pairs) for pairs in product(("Aa", "BB"), repeat=7)]
    assert len({index_key_hash("T", key) for key in keys}) == 1
    store = opened(tmp_path, replace(SMALL, max_index_num=1000))
    for number, key in enumerate(keys):
        put(store, message(b"%d" % number, UNIQ_KEY=key))
    for number, key in enumerate(keys):
        assert bodies_with_key(store, key, count=1) == [b"%d" % number]


def test_a_key_whose_hash_has_no_positive_counterpart_is_found(tmp_path: Path) -> None:
    wanted, key = (0x8000_0000 - unsigned_hash("T#" + "@" * 7)) % 2**32, ""
    for _ in range(7):
        wanted, digit = divmod(wanted, 31)
        key = chr(ord("@") + digit) + key
    assert unsigned_hash(f"T#{key}") == 0x8000_0000
    store = opened(tmp_path)
    put(store, message(b"other", KEYS="other"))
    put(store, message(b"1", KEYS=key))
    assert bodies_with_key(store, key) == [b"1"]


def test_a_query_looks_at_a_limited_number_of_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path, replace(SMALL, max_hash_slot_num=1, max_index_num=1000))
    put(store, message(b"deep", KEYS="deep"))
    for _ in range(50):
        put(store, message(KEYS="busy"))
    assert bodies_with_key(store, "deep") == [b"deep"]
    monkeypatch.setattr(index, "MAX_WALK", 50)
    assert bodies_with_key(store, "deep") == []
    monkeypatch.setattr(index, "MAX_CHAIN", 10)
    assert len(bodies_with_key(store, "busy", count=1000)) == 10


# -- ranges of time ---------------------------------------------------------------------------------------------


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


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 2500), st.integers(0, 2)), min_size=1, max_size=60),
    begin=st.integers(-500, 60_000),
    length=st.integers(0, 60_000),
    count=st.integers(1, 20),
)
def test_a_range_of_time_across_files_gives_what_looking_at_each_message_gives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], begin: int, length: int, count: int
) -> None:
    clock = Clock()
    store = opened(tmp_path_factory.mktemp("store"), replace(SMALL, max_index_num=8), clock=clock)
    stored: list[tuple[int, int, int]] = []
    for number, (after, key) in enumerate(steps):
        clock.now_ms += after
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"k{key} k{key + 1}", TAGS="t"))
        stored.append((clock.now_ms, key, number))
    begin_ms, end_ms = START_MS + begin, START_MS + begin + length
    for key in range(4):
        expected = [n for at, own, n in reversed(stored) if key in (own, own + 1) and begin_ms <= at <= end_ms]
        found = store.query_by_key("T", f"k{key}", count, begin_ms, end_ms)
        assert [int(message.body) for message in found] == expected[:count]
    store.close()


def test_a_message_with_a_tag_before_those_with_keys_is_found_by_its_time(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock=clock)
    put(store, message(b"tagged", TAGS="x"))
    clock.now_ms += 5000
    put(store, message(b"keyed", KEYS="k"))
    found = store.query_by_key("T", "x", 9, 0, START_MS + 1000, KeyKind.TAG)
    assert [message.body for message in found] == [b"tagged"]


def test_a_query_of_another_time_does_not_wait_for_a_gap(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock=clock)
    for number in range(100):
        clock.now_ms += 1000
        put(store, message(b"%d" % number, KEYS=f"k{number} x y"))
    store.close()
    sorted((tmp_path / "index").iterdir())[1].unlink()
    executor = Executor()
    store = opened(tmp_path, clock=clock, soon=executor.soon)
    late = store.query_by_key("T", "k99", 1, clock.now_ms - 5000, EVER)
    assert ([message.body for message in late], store._index.backlog) == ([b"99"], 1)
    assert bodies_with_key(store, "k30") == [b"30"]
    assert store._index.backlog == 0
