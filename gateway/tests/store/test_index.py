"""Messages by key: collisions, ranges of time, rebuilding what is lost or damaged."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import RLock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.store import index
from gateway.store.checkpoint import MARKS_AT
from gateway.store.errors import StoreError
from gateway.store.files import Buffer, RealFiles
from gateway.store.index import FLUSH_INTERVAL_MS, LEAST_SLICE, KeyIndex
from gateway.store.index_entries import KeyKind
from gateway.store.index_file import IndexFile, IndexSnapshot, read_head
from gateway.store.message_store import MessageStore
from gateway.store.paths import StorePaths
from gateway.store.put_result import PutResult, PutStatus
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
    small_store,
)
from wire.disk.index_file import ENTRY, FIRST_ENTRY, IndexHead, IndexShape
from wire.message.flags import SysFlag
from wire.message.java_hash import index_key_hash, unsigned_hash

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


def test_messages_without_a_key_among_those_with_one_leave_the_others_theirs(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(LEAST_SLICE):
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number:04}"))
        if number % 3 == 0:
            put(store, message(b"op", topic="ops", TAGS="d"))
    assert [_found(store, f"u{number:04}") for number in range(LEAST_SLICE)] == [
        [b"%d" % number] for number in range(LEAST_SLICE)
    ]
    assert len(store.query_by_key("ops", "d", 1000, 0, EVER, KeyKind.TAG)) == -(-LEAST_SLICE // 3)


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
    executor.work()()  # written
    executor.work()()  # on disk
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
    overwrite(tmp_path / "checkpoint", MARKS_AT, bytes(256))
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


@pytest.mark.parametrize("torn", [1, 10, 89, 90])
def test_entries_that_a_power_failure_took_are_not_missed(tmp_path: Path, torn: int) -> None:
    """The header reached the disk, and not all of the 90 entries it tells of; slots come later, so none did."""
    directory = tmp_path / "s"
    settings = replace(SMALL, max_hash_slot_num=3000, max_index_num=2000)
    disk = Disk()
    store = opened(directory, settings, disk=disk)
    _fill(store, 100)
    store.flush()
    _fill(store, 30, 100)
    disk.fail("sync", "/index/", errno.ENOSPC)
    assert not store.flush()
    image = killed(directory)
    (path,) = (image / "index").iterdir()
    end = IndexHead.parse(path.read_bytes()).next_entry
    assert end == 1 + 130 * 3
    overwrite(path, IndexShape(3000, 2000).entry_position(end - torn), bytes(ENTRY.size * torn))
    store = opened(image, settings)
    _check(store, 130)
    _fill(store, 100, 130)
    store.close()
    store = opened(image, settings)
    assert not store._index.backlog
    _check(store, 230)


@pytest.mark.parametrize("write", range(1, 8))
def test_a_flush_cut_short_anywhere_costs_only_what_came_since_the_one_before(tmp_path: Path, write: int) -> None:
    directory = tmp_path / "s"
    settings = replace(SMALL, max_hash_slot_num=3000, max_index_num=2000)
    disk = Disk()
    store = opened(directory, settings, disk=disk)
    _fill(store, 100)
    store.flush()
    _fill(store, 30, 100)
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
        idle = opened(killed(directory, 1), settings, soon=Executor().soon)
        assert len(list(idle._index._read_from(idle._index.scanned))) in (0, 30)
    store = opened(image, settings)
    _check(store, 130)
    _fill(store, 100, 130)
    store.close()
    store = opened(image, settings)
    assert not store._index.backlog
    _check(store, 230)
    _fill(store, 50, 230)
    _check(store, 280)


@pytest.mark.parametrize("write", range(1, 5))
def test_a_roll_back_cut_short_anywhere_is_made_once_more(tmp_path: Path, write: int) -> None:
    directory = tmp_path / "s"
    settings = replace(SMALL, max_hash_slot_num=3000, max_index_num=2000)
    disk = Disk()
    store = opened(directory, settings, disk=disk)
    _fill(store, 100)
    store.flush()
    _fill(store, 30, 100)
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
        opened(image, settings, disk=disk)
    assert writes == ["write", "sync", "write", "sync"][:write]
    _check(opened(killed(image), settings), 130)


def test_files_made_for_entries_that_a_kill_took_cost_only_what_came_since_the_last_flush(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    _fill(store, 30)
    store.flush()
    before = sorted(path.name for path in (directory / "index").iterdir())
    _fill(store, 70, 30)
    assert _found(store, "u99") == [b"99"]
    assert len(list((directory / "index").iterdir())) > len(before) + 1, "made, and nothing is in them"
    idle = opened(killed(directory), soon=Executor().soon)
    assert len(list(idle._index._read_from(idle._index.scanned))) == 70
    assert [file.path.name for file in idle._index.index_files] == before
    _check(idle, 100)


def test_files_that_a_start_deletes_are_gone_for_good_before_others_are_made(tmp_path: Path) -> None:
    """Else a power failure brings them back, and a start rolls back the one that the checkpoint leads into: those
    made in their place, which come behind it, are deleted then.
    """
    directory = tmp_path / "s"
    store = opened(directory)
    _fill(store, 21)
    store.flush()
    checkpoint = (directory / "checkpoint").read_bytes()
    _fill(store, 60, 21)
    store.flush()
    image = killed(directory)
    (image / "checkpoint").write_bytes(checkpoint)
    disk = Disk()
    store = opened(image, disk=disk)
    _check(store, 81)
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
        _fill(store, 10)
        disk.fail("write", part, errno.ENOSPC)
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
    executor.work()()  # written
    executor.work()()  # on disk
    assert store._index.backlog
    store._log.files.remove_first()
    assert len(_found(store, "k11")) == 1
    assert _found(store, "k0") == []


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


def test_a_thousand_keys_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    keys = ["".join(pairs) for pairs in product(("Aa", "BB"), repeat=7)]
    assert len({index_key_hash("T", key) for key in keys}) == 1
    store = opened(tmp_path, replace(SMALL, max_index_num=1000))
    for number, key in enumerate(keys):
        put(store, message(b"%d" % number, UNIQ_KEY=key))
    for number, key in enumerate(keys):
        assert _found(store, key, count=1) == [b"%d" % number]


def test_a_key_whose_hash_has_no_positive_counterpart_is_found(tmp_path: Path) -> None:
    wanted, key = (0x8000_0000 - unsigned_hash("T#" + "@" * 7)) % 2**32, ""
    for _ in range(7):
        wanted, digit = divmod(wanted, 31)
        key = chr(ord("@") + digit) + key
    assert unsigned_hash(f"T#{key}") == 0x8000_0000
    store = opened(tmp_path)
    put(store, message(b"other", KEYS="other"))
    put(store, message(b"1", KEYS=key))
    assert _found(store, key) == [b"1"]


def test_a_query_looks_at_a_limited_number_of_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path, replace(SMALL, max_hash_slot_num=1, max_index_num=1000))
    put(store, message(b"deep", KEYS="deep"))
    for _ in range(50):
        put(store, message(KEYS="busy"))
    assert _found(store, "deep") == [b"deep"]
    monkeypatch.setattr(index, "MAX_WALK", 50)
    assert _found(store, "deep") == []
    monkeypatch.setattr(index, "MAX_CHAIN", 10)
    assert len(_found(store, "busy", count=1000)) == 10


# -- ranges of time ---------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("begin_ms", "stored_at_ms", "seconds"),
    [
        (0, 5_000, 0),
        (-1, 5_000, 0),
        (1_000, 1_000, 0),
        (1_000, 1_999, 0),
        (1_000, 2_000, 1),
        (5_000, 1_000, 0),
        (1, 1 + (2**31 - 1) * 1000, 2**31 - 1),
        (1, 1 + 2**31 * 1000, 2**31 - 1),
    ],
)
def test_the_age_in_an_entry_is_cut_as_upstream_cuts_it(
    tmp_path: Path, begin_ms: int, stored_at_ms: int, seconds: int
) -> None:
    file = IndexFile(RealFiles(), tmp_path / "20260101000000000", IndexShape(10, 20))
    file.make()
    file.add_all([1], [0], [begin_ms])
    file.add_all([2, 2], [10, 20], [stored_at_ms, max(stored_at_ms, 7)])
    assert ENTRY.unpack_from(file.pending, ENTRY.size)[2] == seconds
    assert [found[1] for found in file.find(2, RLock()) if found is not None][-1] == seconds


# -- many keys --------------------------------------------------------------------------------------------------


def test_hundreds_of_thousands_of_keys_roll_over_files_and_are_found_after_a_restart(tmp_path: Path) -> None:
    shape, messages = IndexShape(20_000, 60_001), 150_000
    paths = StorePaths(tmp_path)

    def key_index() -> KeyIndex:
        return KeyIndex(RealFiles(), paths, shape, Clock(), read_from=lambda _: [], max_backlog=1 << 20)

    built = key_index()
    results = [
        PutResult(PutStatus.PUT_OK, message(UNIQ_KEY=f"7F000001{number:024X}"), None, 0, number * 100, 100, START_MS)
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


class BusyFiles(RealFiles):
    """Files whose sync takes so long that keys are added meanwhile; how large the writes are."""

    def __init__(self) -> None:
        self.meanwhile: list[Callable[[], None]] = []
        self.written: list[int] = []

    def fdatasync(self, fd: int) -> None:
        if self.meanwhile:
            self.meanwhile.pop()()
        super().fdatasync(fd)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        self.written.append(len(data))
        super().pwrite(fd, data, offset)


def _add(file: IndexFile, numbers: Iterable[int]) -> None:
    hashes = [number * 37 for number in numbers]
    file.add_all(hashes, hashes, [START_MS] * len(hashes))


def _offsets(file: IndexFile, number: int) -> list[int]:
    return [found[0] for found in file.find(number * 37, RLock()) if found is not None]


def test_a_flush_writes_what_was_there_when_it_began_and_the_next_one_the_rest(tmp_path: Path) -> None:
    files, shape, path = BusyFiles(), IndexShape(5_000, 20_000), tmp_path / "20260101000000000"
    file = IndexFile(files, path, shape)
    file.make()
    _add(file, range(1_000))
    files.meanwhile.append(lambda: _add(file, range(500, 1_500)))  # changes pages that are not written yet
    snapshot = IndexSnapshot(file)
    snapshot.write(RLock())
    file.written(snapshot)
    cut = read_head(RealFiles(), path, shape)
    assert cut is not None
    assert cut.next_entry == 1_001
    assert [_offsets(cut, number) for number in range(1_000)] == [[number * 37] for number in range(1_000)]
    assert _offsets(cut, 1_499) == []
    assert len(_offsets(file, 700)) == 2
    snapshot = IndexSnapshot(file)
    snapshot.write(RLock())
    file.written(snapshot)
    whole = read_head(RealFiles(), path, shape)
    assert whole is not None
    assert [len(_offsets(whole, number)) for number in range(1_500)] == [1] * 500 + [2] * 500 + [1] * 500
    assert file.pending_count == 0


def test_pages_of_a_flush_that_failed_are_written_by_the_next_one(tmp_path: Path) -> None:
    shape, path = IndexShape(5_000, 20_000), tmp_path / "20260101000000000"
    file = IndexFile(RealFiles(), path, shape)
    file.make()
    _add(file, range(1_000))
    snapshot = IndexSnapshot(file)
    _add(file, range(500, 1_500))
    file.thaw_pages(snapshot.pages)
    IndexSnapshot(file).write(RLock())
    whole = read_head(RealFiles(), path, shape)
    assert whole is not None
    assert [len(_offsets(whole, number)) for number in range(1_500)] == [1] * 500 + [2] * 500 + [1] * 500


def test_nobody_waits_for_more_than_a_slice_of_a_flush(tmp_path: Path) -> None:
    files = BusyFiles()
    file = IndexFile(files, tmp_path / "20260101000000000", IndexShape(200 * 1024, 50_000))
    file.make()
    _add(file, range(0, 200 * 1024, 7))
    snapshot = IndexSnapshot(file)
    assert len(snapshot.pages) == 200
    snapshot.write(RLock())
    assert max(files.written) <= 64 * 4096


def test_neighbouring_messages_whose_keys_end_a_file_are_all_found(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, max_index_num=4))  # three keys a file
    for number in range(10):
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"a{number} b{number}", TAGS=f"t{number}"))
    for number in range(10):
        for key in (f"u{number}", f"a{number}", f"b{number}"):
            assert _found(store, key) == [b"%d" % number]
        assert len(store.query_by_key("T", f"t{number}", 9, 0, EVER, KeyKind.TAG)) == 1


# -- what waits -------------------------------------------------------------------------------------------------


def _waiting(directory: Path, count: int) -> tuple[Executor, MessageStore]:
    executor = Executor()
    store = opened(directory, soon=executor.soon, in_thread=executor.in_thread)
    executor.run()
    for number in range(count):
        store.append(message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"k{number % 7} all"), lambda _: None)
    executor.run()
    return executor, store


def test_a_few_messages_wait_for_more_and_many_do_not(tmp_path: Path) -> None:
    _, few = _waiting(tmp_path / "few", LEAST_SLICE - 1)
    _, many = _waiting(tmp_path / "many", LEAST_SLICE)
    assert (few._index.backlog, many._index.backlog) == (LEAST_SLICE - 1, 0)
    _check(few, LEAST_SLICE - 1)
    _check(many, LEAST_SLICE)


def test_a_flush_takes_the_few_along(tmp_path: Path) -> None:
    _, store = _waiting(tmp_path / "s", 10)
    assert store.flush()
    assert store._index.backlog == 0
    store = opened(killed(tmp_path / "s"))
    assert store._index.backlog == 0, "nothing is read from the log again"
    _check(store, 10)


def test_large_messages_that_wait_are_read_from_the_log_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_BACKLOG_BYTES", 1000)
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    store.append(message(b"makes the file"), lambda _: None)
    executor.run()
    for number in range(3):
        store.append(message(b"x" * 500 + b"%d" % number, UNIQ_KEY=f"u{number}"), lambda _: None)
        executor.run_turn()
        executor.work()()
    assert store._index._waiting.count == 1
    assert [len(_found(store, f"u{number}")) for number in range(3)] == [1, 1, 1]


def test_a_flush_by_interval_leaves_the_index_out_until_it_is_due(tmp_path: Path) -> None:
    clock = Clock()
    directory = tmp_path / "s"
    store = opened(directory, clock=clock)
    _fill(store, 10)
    clock.now_ms += 100_000
    assert store.flush_due(clock.now_ms)
    mark = store._checkpoint.marks
    assert mark is not None
    _fill(store, 10, 10)
    clock.now_ms += 5_000
    store._flushing.flush(due_only=True)
    assert store._checkpoint.marks is not None
    assert store._checkpoint.marks.index == mark.index
    assert store._checkpoint.marks.queues > mark.queues
    _check(opened(killed(directory)), 20)
    clock.now_ms += FLUSH_INTERVAL_MS
    store._flushing.flush(due_only=True)
    assert store._checkpoint.marks.index.scanned == store._index.scanned
    _check(opened(killed(directory, 1)), 20)


def test_many_new_entries_do_not_wait_for_the_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    store.flush()
    assert not store._index.flush_is_due
    monkeypatch.setattr(index, "FLUSH_ENTRIES", 20)
    _fill(store, 10)
    store.query_by_key("T", "all", 1, 0, EVER)
    assert store._index.flush_is_due


# -- damage -----------------------------------------------------------------------------------------------------


def test_an_index_that_catches_up_asks_for_the_log_before_it_gets_there(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    class Asked(Disk):
        def read_ahead(self, fd: int, offset: int, count: int) -> None:
            asked.append((self.open_fds[fd].name, offset))

    store = opened(tmp_path)
    _fill(store, 150)
    store.close()
    for path in (tmp_path / "index").iterdir():
        path.unlink()
    store = opened(tmp_path, disk=Asked())
    _check(store, 150)
    logs = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert asked[: len(logs)] == [(name, 0) for name in logs]
    assert len(asked) <= 2 * len(logs), "not for every slice"


def test_slots_that_lead_nowhere_count_as_empty_when_writing_goes_on(tmp_path: Path) -> None:
    store = opened(tmp_path)
    _fill(store, 5)
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    head = path.read_bytes()[:40]
    overwrite(path, 40, b"\x7f\xff\xff\xff\x80\x00\x00\x00" * 8)
    store = opened(tmp_path)
    assert path.read_bytes()[:40] == head
    _fill(store, 5, 5)
    assert [_found(store, f"u{number}") for number in range(5, 10)] == [[b"%d" % number] for number in range(5, 10)]
    store.close()
    entries = path.read_bytes()[40 + 16 * 4 :]
    for number in range(1, IndexHead.parse(path.read_bytes()).next_entry):
        assert ENTRY.unpack_from(entries, number * ENTRY.size)[3] < number, "no circle for Apache's broker"


@pytest.mark.parametrize("positions", [[0], [1], [0, 1], [2, 3], [1, 4]])
@pytest.mark.parametrize("kill", [False, True])
def test_lost_older_index_files_are_noticed_and_filled_again(tmp_path: Path, positions: list[int], kill: bool) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    _fill(store, 150)
    store.flush()
    names = sorted((directory / "index").iterdir())
    assert len(names) > 6
    if kill:
        directory = killed(directory)
        names = sorted((directory / "index").iterdir())
    else:
        store.close()
    for position in positions:
        names[position].unlink()
    store = small_store(directory)
    remarks = store.open().remarks
    assert [any(str(path) in remark for remark in remarks) for path in names] == [
        position in positions for position in range(len(names))
    ]
    _check(store, 150)
    _fill(store, 20, 150)
    _check(store, 170)
    store.close()
    assert sorted((directory / "index").iterdir())[: len(names)] == names, "no gap is left, and no file more"
    store = small_store(directory)
    assert store.open().remarks == []
    assert store._index.backlog == 0
    _check(store, 170)


def test_filling_a_gap_that_was_cut_short_begins_anew(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    _fill(store, 150)
    store.close()
    names = sorted((directory / "index").iterdir())
    names[1].unlink()
    executor = Executor()
    store = small_store(directory, soon=executor.soon)
    store.open()
    assert store._index.build(5) == 5, "some of it"
    assert store._index.backlog
    store.flush()
    for number in range(2):  # as a kill left it, and once more after that
        copy = killed(directory, number)
        again = small_store(copy)
        assert any(names[1].name in remark for remark in again.open().remarks)
        _check(again, 150)
        again.close()
        assert opened(copy)._index.backlog == 0


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
    assert _found(store, "k30") == [b"30"]
    assert store._index.backlog == 0


def test_index_files_that_expired_are_not_taken_for_lost(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(200):
        put(store, message(b"%d" % number * 100, KEYS=f"k{number} x y"))
    store.flush()
    for _ in range(3):
        store._log.files.remove_first()
    store._checkpoint.begin_log(store.min_commit_log_offset)
    assert store._index.remove_expired(store.min_commit_log_offset) > 0
    again = small_store(killed(tmp_path))  # the list of names is older than the deletion
    assert not [remark for remark in again.open().remarks if "index file" in remark]


def expired_index(directory: Path, disk: Disk) -> MessageStore:
    """A store whose first index files know deleted messages only; none of them is open."""
    store = opened(directory)
    for number in range(200):
        put(store, message(b"%d" % number * 100, KEYS=f"k{number} x y"))
    store.close()
    store = opened(directory, disk=disk)
    for _ in range(3):
        store._log.files.remove_first()
    store._checkpoint.begin_log(store.min_commit_log_offset)
    for file in store._index.index_files:
        file._open = None
    return store


def test_a_search_that_meets_an_index_file_as_it_expires_finds_what_is_left(tmp_path: Path) -> None:
    store = expired_index(tmp_path, Disk())
    low = store.min_commit_log_offset
    search = store._index.find("T", "x", 0, EVER)
    first = next(search)
    assert store._index.remove_expired(low) > 0
    found = [first, *search]  # goes on to the files that it saw when it began
    assert max(found) > low
    assert sum(offset >= low for offset in found) > 50


def test_nobody_begins_to_read_an_index_file_that_is_being_deleted(tmp_path: Path) -> None:
    found: list[list[int]] = []

    class Asking(Disk):
        def unlink(self, path: Path) -> None:
            super().unlink(path)
            if path.parent.name == "index":
                found.append(list(store._index.find("T", "x", 0, EVER)))

    store = expired_index(tmp_path, Asking())
    count = store._index.remove_expired(store.min_commit_log_offset)
    assert len(found) == count > 0
    assert all(len(offsets) > 50 for offsets in found)


def test_an_index_file_that_is_lost_is_no_file_that_expired(tmp_path: Path) -> None:
    store = expired_index(tmp_path, Disk())
    lost = store._index.index_files[0]
    lost.path.unlink()
    with pytest.raises(FileNotFoundError):
        list(store._index.find("T", "x", 0, EVER))


def test_an_index_file_that_cannot_be_deleted_is_deleted_later(tmp_path: Path) -> None:
    disk = Disk()
    store = expired_index(tmp_path, disk)
    before = len(list((tmp_path / "index").iterdir()))
    disk.fail("unlink", "/index/")
    with pytest.raises(OSError, match="Input/output error"):
        store._index.remove_expired(store.min_commit_log_offset)
    assert len(list((tmp_path / "index").iterdir())) == before
    disk.fault = None
    assert store._index.remove_expired(store.min_commit_log_offset) > 1
    assert len(list((tmp_path / "index").iterdir())) == len(store._index.index_files)


def test_a_switched_off_index_finds_nothing_and_makes_no_file(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, message_index_enable=False))
    _fill(store, 3)
    assert _found(store, "all") == []
    store.close()
    assert list((tmp_path / "index").iterdir()) == []


def test_a_file_is_kept_for_the_keys_of_messages_behind_the_last_one_with_a_tag(tmp_path: Path) -> None:
    """Entries of tags come behind those of the keys of later messages that were indexed with them."""
    store = opened(tmp_path)
    put(store, message(b"first", KEYS="k", TAGS="x"))
    for number in range(20):
        put(store, message(b"%d" % number * 1000, KEYS=f"k{number}"))
    room = store._index._shape.entries - FIRST_ENTRY - 22
    put(store, message(b"full", KEYS=" ".join(f"f{number}" for number in range(room))))
    assert _found(store, "k19") == [b"19" * 1000]
    put(store, message(b"last", KEYS="l"))
    assert _found(store, "l") == [b"last"]
    assert len(store._index.index_files) == 2
    assert store._index.index_files[0].is_full, "with the tag as its last entry"
    store.flush()
    assert store._log.files.remove_first() is not None
    store._checkpoint.begin_log(store.min_commit_log_offset)
    store._index.remove_expired(store.min_commit_log_offset)
    assert _found(store, "k19") == [b"19" * 1000]


def test_a_message_with_a_tag_before_those_with_keys_is_found_by_its_time(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock=clock)
    put(store, message(b"tagged", TAGS="x"))
    clock.now_ms += 5000
    put(store, message(b"keyed", KEYS="k"))
    found = store.query_by_key("T", "x", 9, 0, START_MS + 1000, KeyKind.TAG)
    assert [message.body for message in found] == [b"tagged"]


def test_what_has_no_keys_is_considered_at_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(UNIQ_KEY="rolled back", sys_flag=SysFlag.TRANSACTION_ROLLBACK))
    assert store._index.backlog == 0
    assert store._index.scanned == store.max_commit_log_offset
