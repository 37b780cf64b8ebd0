"""Statuses and next offsets of reads, and offsets by time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.store.disk.files import FileLayer
from gateway.store.message_store import MessageStore
from gateway.store.reading import choice, queue_reader, sources
from gateway.store.reading.choice import Choice
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.wanted import ChooseRecords, Wanted, WantedCodes
from gateway.tests.store.page_cache import evict, is_left_to_the_disk
from gateway.tests.store.small_store import (
    SMALL,
    START_MS,
    Clock,
    Disk,
    bodies,
    message,
    opened,
    overwrite,
    put,
    remove_first,
)
from wire.disk.consume_queue import FILLER, UNIT
from wire.message.record import parse_record, parse_records
from wire.message.tags import tags_code

MIB = 1 << 20
ALL = MIB


def each(accepts: Callable[[bytes], bool]) -> ChooseRecords:
    """Records are looked into one by one."""

    def choose(data: bytes, start: int, units: bytes, _least: int) -> tuple[list[int], int]:
        places = [(position - start, size) for position, size, _ in UNIT.iter_unpack(units)]
        return [number for number, (at, size) in enumerate(places) if accepts(data[at : at + size])], len(places)

    return choose


EACH = each(lambda _: True)


def tagged(directory: Path, tags: str) -> MessageStore:
    """Queue T/0 with a message for each letter, which is its tag."""
    store = opened(directory)
    for number, tag in enumerate(tags):
        put(store, message(b"%02d" % number, TAGS=tag))
    return store


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """Queue T/0 with 25 messages, every fifth of them with tag B."""
    return tagged(tmp_path, "BAAAA" * 5)


def test_an_unknown_queue_has_no_logic_queue(store: MessageStore) -> None:
    for offset in (0, 5, -1):
        result = store.get_messages("T", 9, offset, 32, ALL)
        assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0)


def test_a_queue_without_messages_says_so_whatever_the_offset(store: MessageStore) -> None:
    store._queues.make("E", 0)
    for offset in (0, 5, -1):
        result = store.get_messages("E", 0, offset, 32, ALL)
        assert (result.status, result.next_begin_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (25, GetStatus.OFFSET_OVERFLOW_ONE, 25),
        (26, GetStatus.OFFSET_OVERFLOW_BADLY, 25),
        (1 << 60, GetStatus.OFFSET_OVERFLOW_BADLY, 25),
        (0, GetStatus.FOUND, 10),
        (3, GetStatus.FOUND, 10),
        (24, GetStatus.FOUND, 25),
    ],
)
def test_an_offset_decides_status_and_next_offset(
    store: MessageStore, offset: int, status: GetStatus, next_offset: int
) -> None:
    result = store.get_messages("T", 0, offset, 32, ALL)
    assert (result.status, result.next_begin_offset) == (status, next_offset)
    assert (result.min_offset, result.max_offset) == (0, 25)


def test_neighbours_in_the_log_are_one_part(store: MessageStore) -> None:
    result = store.get_messages("T", 0, 0, 5, ALL)
    assert (result.count, len(result.parts)) == (5, 1)
    assert result.total_bytes == sum(map(len, result.parts))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from((100, 200)), st.sampled_from((0, 0, 50, 100)), st.sampled_from((1, 1, 1, 2))),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 12),
    st.integers(0, 3000),
)
def test_blocks_of_units_choose_what_looking_at_each_unit_chooses(
    records: list[tuple[int, int, int]], max_count: int, max_bytes: int
) -> None:
    units, position = b"", 1000
    for size, others_between, messages in records:  # several in a record of a batch queue
        units += UNIT.pack(position, size, 7) * messages
        position += size + others_between
    blocks, singly = (Choice(max_count, max_bytes, 0, 1 << 20) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "BLOCK_UNITS", 3)
        patch.setattr(choice, "BLOCK_BYTES", 3 * UNIT.size)
        patch.setattr(choice, "_BLOCK", UNIT.repeated(3))
        blocks.take(units, None)
        singly.take(units, lambda code: code == 7)
    assert (blocks.count, blocks.total_bytes, blocks.examined, blocks.gone, blocks.last_size) == (
        singly.count, singly.total_bytes, singly.examined, singly.gone, singly.last_size,
    )  # fmt: skip
    assert blocks.ranges == singly.ranges


def test_at_least_one_message_is_returned_whatever_the_limits(store: MessageStore) -> None:
    for max_count, max_bytes in ((1, 1), (32, 0), (0, ALL), (-1, -1)):
        result = store.get_messages("T", 0, 2, max_count, max_bytes)
        assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 3)


def test_bytes_limit_a_read(store: MessageStore) -> None:
    size = store.get_messages("T", 0, 0, 1, ALL).total_bytes
    result = store.get_messages("T", 0, 0, 32, 3 * size)
    assert (result.count, result.next_begin_offset) == (3, 3)


def test_a_tag_filter_passes_over_others(store: MessageStore) -> None:
    wanted = tags_code("B")
    result = store.get_messages("T", 0, 1, 32, ALL, Wanted(lambda code: code == wanted))
    assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 10)
    result = store.get_messages("T", 0, 1, 32, ALL, Wanted(lambda code: code == 4711))
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)


def test_a_filtered_read_stops_behind_its_last_message(store: MessageStore) -> None:
    wanted = tags_code("B")
    result = store.get_messages("T", 0, 0, 1, ALL, Wanted(lambda code: code == wanted))
    assert (result.count, result.next_begin_offset) == (1, 1)


def test_a_record_filter_looks_at_whole_records(store: MessageStore) -> None:
    result = store.get_messages("T", 0, 0, 32, ALL, Wanted(by_record=each(lambda record: b"07" in record)))
    assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 10)
    result = store.get_messages("T", 0, 0, 32, ALL, Wanted(lambda _: True, each(lambda _: False)))
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)
    result = store.get_messages("T", 0, 0, 2, ALL, Wanted(by_record=EACH))
    assert (result.count, result.next_begin_offset) == (2, 2)


def test_a_missing_queue_file_leads_to_the_next_one(store: MessageStore) -> None:
    store.flush()
    queue = store._queues.make("T", 0)
    queue.remove_file(queue.starts[1])
    result = store.get_messages("T", 0, 12, 32, ALL)
    assert (result.status, result.next_begin_offset) == (GetStatus.OFFSET_FOUND_NULL, 20)


@pytest.mark.parametrize("by_record", [False, True])
def test_messages_that_retention_took_are_passed_over_and_none_that_exists(tmp_path: Path, by_record: bool) -> None:
    store = opened(tmp_path)
    for number in range(9):
        put(store, b"%d" % number * 2000)
    remove_first(store._log.files)
    choose = EACH if by_record else None
    gone = sum(1 for offset in range(9) if (unit := store._queues.make("T", 0).unit(offset)) and unit[0] < 8192)
    result = store.get_messages("T", 0, 0, 2, ALL, Wanted(by_record=choose))
    while result.status is GetStatus.MESSAGE_WAS_REMOVING:
        assert result.next_begin_offset <= gone
        result = store.get_messages("T", 0, result.next_begin_offset, 2, ALL, Wanted(by_record=choose))
    assert result.status is GetStatus.FOUND
    assert parse_records(b"".join(result.parts))[0].queue_offset == gone


@pytest.mark.parametrize("by_record", [False, True])
def test_when_all_messages_asked_for_are_gone_it_is_said(tmp_path: Path, by_record: bool) -> None:
    store = opened(tmp_path)
    for number in range(9):
        put(store, b"%d" % number * 2000)
    remove_first(store._log.files)
    choose = EACH if by_record else None
    queue = store._queues.make("T", 0)
    queue.max_offset = 3
    result = store.get_messages("T", 0, 0, 32, ALL, Wanted(by_record=choose))
    assert (result.status, result.next_begin_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 3)


def test_retention_in_the_middle_of_a_read_does_not_skip_messages_that_exist(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(9):
        put(store, b"%d" % number * 2000)
    taken: list[int] = []

    def accepts(code: int) -> bool:
        if not taken:
            taken.append(code)
            removed = remove_first(store._log.files)
            removed._file = None  # nobody had opened it
        return True

    queue = store._queues.make("T", 0)
    result = store.get_messages("T", 0, 0, 32, ALL, Wanted(accepts))
    last = queue.unit(result.next_begin_offset - 1)
    assert result.status is GetStatus.FOUND
    assert result.count == sum(
        1 for offset in range(9) if (unit := queue.unit(offset)) and unit[0] >= store.min_commit_log_offset
    )
    assert last is not None
    assert not (tmp_path / "commitlog" / f"{0:020d}").exists(), "a reader makes no file"


@pytest.mark.parametrize("unit", [FILLER, UNIT.pack(0, 1 << 30, 0), UNIT.pack(0, -5, 0), UNIT.pack(1 << 40, 99, 0)])
@pytest.mark.parametrize("by_record", [False, True])
def test_a_unit_that_leads_nowhere_costs_no_memory_and_hides_no_other(
    tmp_path: Path, unit: bytes, by_record: bool
) -> None:
    store = opened(tmp_path)
    for number in range(3):
        put(store, b"%d" % number)
    store.flush()
    overwrite(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 20, unit)
    choose = EACH if by_record else None
    result = store.get_messages("T", 0, 0, 32, ALL, Wanted(by_record=choose))
    if unit != FILLER and not (by_record and unit == UNIT.pack(1 << 40, 99, 0)):
        assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 1)
        result = store.get_messages("T", 0, 1, 32, ALL, Wanted(by_record=choose))
        assert (result.status, result.next_begin_offset) == (GetStatus.MESSAGE_DAMAGED, 1)
        assert result.remark.startswith("message 1 of T/0 is damaged (")
        result = store.get_messages("T", 0, 2, 32, ALL, Wanted(by_record=choose))
    elif result.next_begin_offset == 1:
        result = store.get_messages("T", 0, 1, 32, ALL, Wanted(by_record=choose))
    assert (result.status, result.next_begin_offset) == (GetStatus.FOUND, 3)


@pytest.fixture
def timed(tmp_path: Path) -> MessageStore:
    """Messages stored at +0, +10, +10, +10, +20 … and one at +50."""
    clock = Clock()
    store = opened(tmp_path, replace(SMALL, mapped_file_size_consume_queue=60), clock=clock)
    for after in (0, 10, 10, 10, 20, 50):
        clock.now_ms = START_MS + after
        put(store, b"%d" % after)
    return store


@pytest.mark.parametrize(
    ("after", "lower", "upper"),
    [(-1, 0, 0), (0, 0, 0), (1, 1, 0), (10, 1, 3), (15, 4, 3), (20, 4, 4), (50, 5, 5), (51, 6, 5)],
)
def test_an_offset_is_found_by_time_with_both_boundaries(
    timed: MessageStore, after: int, lower: int, upper: int
) -> None:
    assert timed.offset_at_time("T", 0, START_MS + after) == lower
    assert timed.offset_at_time("T", 0, START_MS + after, upper=True) == upper


def test_times_of_unknown_or_empty_queues(timed: MessageStore) -> None:
    assert timed.offset_at_time("Unknown", 0, START_MS) == 0
    assert timed.earliest_stored_at_ms("Unknown", 0) == -1
    assert timed.stored_at_ms("Unknown", 0, 0) == -1
    assert timed.stored_at_ms("T", 0, 6) == -1
    assert timed.stored_at_ms("T", 0, -1) == -1
    assert timed.stored_at_ms("T", 0, 4) == START_MS + 20
    assert timed.earliest_stored_at_ms("T", 0) == START_MS


def test_after_retention_times_begin_with_what_is_left(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock=clock)
    for number in range(12):
        clock.now_ms = START_MS + number
        put(store, b"x" * 2000)
    for path in (tmp_path / "commitlog").iterdir():
        os.utime(path, (1, 1))
    store.delete_expired(START_MS, asked=True)
    low = store.min_offset("T", 0)
    assert low > 0
    assert store.earliest_stored_at_ms("T", 0) == START_MS + low
    assert store.offset_at_time("T", 0, 0) == low
    assert store.offset_at_time("T", 0, START_MS + 11) == 11
    assert len(bodies(store)) == 12 - low


# -- by time, against a model -----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from([0, 0, 0, 1, 2, 7]), max_size=40),
    gone=st.integers(0, 3),
    asked=st.lists(st.integers(-2, 90), min_size=1, max_size=12),
)
def test_an_offset_by_time_is_what_looking_at_each_message_gives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], gone: int, asked: list[int]
) -> None:
    """LOWER: the first stored at the time or later, else the end. UPPER: the last stored at it or earlier, else 0."""
    clock = Clock()
    directory = tmp_path_factory.mktemp("store")
    store = opened(directory, replace(SMALL, mapped_file_size_consume_queue=100), clock=clock)
    times: list[int] = []
    for after in steps:
        clock.now_ms += after
        put(store, message(b"x" * 700, queue_id=len(times) % 2))
        put(store, message(b"x" * 700, topic="Other"))
        times.append(clock.now_ms)
    for _ in range(min(gone, len(store._log.files.list) - 1)):
        remove_first(store._log.files)
    store._queues.correct_min(store.min_commit_log_offset)
    for queue_id in (0, 1, 2):
        low, high = max(store.min_offset("T", queue_id), 0), store.max_offset("T", queue_id)
        own = dict(enumerate(times[queue_id::2])) if queue_id < 2 else {}
        kept = {offset: at for offset, at in own.items() if offset >= low}
        assert sorted(kept) == list(range(low, high))
        for after in asked:
            moment = START_MS + after
            lower = min([offset for offset, at in kept.items() if at >= moment], default=high)
            upper = max([offset for offset, at in kept.items() if at <= moment], default=0)
            assert store.offset_at_time("T", queue_id, moment) == lower
            assert store.offset_at_time("T", queue_id, moment, upper=True) == upper
        assert store.earliest_stored_at_ms("T", queue_id) == kept.get(low, -1)
    store.close()


# -- what is in memory ------------------------------------------------------------------------------------------


class Memory(Disk):
    """A disk of which only the named kinds of files are in memory; keeps what was asked for ahead."""

    def __init__(self, *held: str) -> None:
        super().__init__()
        self.held = held
        self.ahead: list[tuple[str, int, int]] = []

    def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
        return self.pread(fd, count, offset) if self.open_fds[fd].parts[-2] in self.held else None

    def read_ahead(self, fd: int, offset: int, count: int) -> None:
        self.ahead.append((self.open_fds[fd].name, offset, count))


def _filled(directory: Path, disk: Disk, count: int = 20) -> MessageStore:
    """A store that was opened again: nothing of it was written just now."""
    store = opened(directory)
    for number in range(count):
        put(store, message(b"%02d" % number * 100, TAGS="A"))
        put(store, message(b"-" * 300, topic="Other"))
    store.close()
    return opened(directory, disk=disk)


def test_what_is_not_open_or_not_in_memory_is_not_read_now(tmp_path: Path) -> None:
    for held in ((), ("commitlog",), ("0",)):
        directory = tmp_path / "-".join(("s", *held))
        store = _filled(directory, Memory(*held))
        assert store.get_messages_now("T", 0, 3, 5, ALL) is None, "no file is open yet"
        assert store.get_messages("T", 0, 3, 5, ALL).count == 5
        assert store.get_messages_now("T", 0, 3, 5, ALL) is None, held


def test_what_is_in_memory_is_read_now_and_is_the_same(tmp_path: Path) -> None:
    store = _filled(tmp_path, Memory("commitlog", "0"))
    wanted = tags_code("A")
    for offset, accepts in ((3, None), (0, lambda code: code == wanted), (0, lambda code: code != wanted)):
        slow = store.get_messages("T", 0, offset, 5, ALL, Wanted(accepts))
        now = store.get_messages_now("T", 0, offset, 5, ALL, Wanted(accepts))
        assert now is not None
        assert (now.status, now.next_begin_offset, list(now.parts)) == (
            slow.status,
            slow.next_begin_offset,
            list(slow.parts),
        )


@pytest.mark.parametrize("kept", [{"colour": "red"}, {"colour": "blue"}, {}])
@pytest.mark.parametrize(("count", "size"), [(1, ALL), (3, ALL), (32, ALL), (32, 600)])
def test_records_in_memory_are_filtered_now_as_they_are_in_a_thread(
    tmp_path: Path, kept: dict[str, str], count: int, size: int
) -> None:
    store = opened(tmp_path)
    for number in range(100):
        put(store, message(b"%02d" % number * 50, colour="red" if number % 7 == 3 else "green"))
        put(store, message(b"-" * 300, topic="Other"))

    def accepts(record: bytes) -> bool:
        return kept.items() <= parse_record(record).property_map.items()

    offset = 0
    while offset < 100:
        slow = store.get_messages("T", 0, offset, count, size, Wanted(by_record=each(accepts)))
        now = store.get_messages_now("T", 0, offset, count, size, Wanted(by_record=each(accepts)))
        assert now is not None
        assert (now.status, now.count, now.total_bytes) == (slow.status, slow.count, slow.total_bytes)
        assert (now.next_begin_offset, b"".join(now.parts)) == (slow.next_begin_offset, b"".join(slow.parts))
        offset = now.next_begin_offset


@pytest.mark.parametrize("count", [1, 3, 32])
@pytest.mark.parametrize("now", [False, True])
def test_a_filtered_read_goes_on_behind_its_last_message_where_units_are_passed_over(
    store: MessageStore, count: int, now: bool
) -> None:
    read = store.get_messages_now if now else store.get_messages
    wanted = [number for number in range(25) if number % 5 and number % 2]
    offset, found = 0, []
    while offset < 25:
        odd = each(lambda record: int(parse_record(record).body) % 2 == 1)
        result = read("T", 0, offset, count, ALL, Wanted(lambda code: code != tags_code("B"), odd))
        assert result is not None
        several = [int(each.body) for each in parse_records(b"".join(result.parts))]
        assert len(several) < count or result.next_begin_offset == several[-1] + 1
        offset = result.next_begin_offset
        found += several
    assert found == wanted


def sparing(most: int, wanted: Callable[[int], bool]) -> ChooseRecords:
    """Look into so many records in all, and into one where a read has looked into none."""
    left = [most]

    def choose(data: bytes, start: int, units: bytes, least: int) -> tuple[list[int], int]:
        places = [(position - start, size) for position, size, _ in UNIT.iter_unpack(units)]
        looked = min(max(left[0], least), len(places))
        left[0] -= looked
        bodies = [int(parse_record(data[at : at + size]).body) for at, size in places[:looked]]
        return [number for number, body in enumerate(bodies) if wanted(body)], looked

    return choose


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize(("most", "count"), [(0, 32), (1, 32), (3, 32), (7, 2), (24, 32), (25, 1), (100, 32)])
def test_a_filter_that_looks_into_no_more_records_is_gone_on_with_where_it_stopped(
    store: MessageStore, most: int, count: int, now: bool
) -> None:
    read = store.get_messages_now if now else store.get_messages
    offset, found, reads = 0, [], 0
    while offset < 25:
        choose = sparing(most, lambda body: body % 3 == 0)
        result = read("T", 0, offset, count, ALL, Wanted(lambda code: code != tags_code("B"), choose))
        assert result is not None
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
        found += [int(each.body) for each in parse_records(b"".join(result.parts))]
        reads += 1
    assert found == [number for number in range(25) if number % 5 and number % 3 == 0]
    assert reads >= 20 // max(most, 1)


def test_a_filtered_read_looks_into_so_many_bytes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    for _ in range(20):
        put(store, message(b"-" * 300))
    monkeypatch.setattr(choice, "FILTERED_BYTES", 1000)
    result = store.get_messages_now("T", 0, 0, 32, ALL, Wanted(by_record=each(lambda record: False)))
    assert result is not None
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3)


def test_a_filtered_read_looks_at_fewer_messages_when_it_may_wait_for_the_disk(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LEAST_EXAMINED", 4)
    monkeypatch.setattr(sources, "LEAST_EXAMINED_NOW", 8)
    for accepts, choose in ((lambda _: False, None), (None, each(lambda _: False))):
        slow = store.get_messages("T", 0, 0, 2, ALL, Wanted(accepts, choose))
        now = store.get_messages_now("T", 0, 0, 2, ALL, Wanted(accepts, choose))
        assert now is not None
        assert (slow.next_begin_offset, now.next_begin_offset) == (4, 8)


def test_a_tag_that_nearly_no_message_has_is_looked_for_further_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LEAST_EXAMINED_NOW", 8)
    store = tagged(tmp_path, "A" * 30 + "B" + "A" * 8 + "B")

    def looked(tag: str, looks: int, offset: int = 0) -> tuple[GetStatus, int, int]:
        monkeypatch.setattr(queue_reader, "LOOKS_FOR_TAGS", looks)
        result = store.get_messages_now("T", 0, offset, 2, ALL, Wanted(WantedCodes(frozenset({tags_code(tag)}))))
        assert result is not None
        return result.status, result.count, result.next_begin_offset

    assert looked("B", 1) == (GetStatus.NO_MATCHED_MESSAGE, 0, 8)
    assert looked("B", 6) == (GetStatus.NO_MATCHED_MESSAGE, 0, 30)  # a look ends with the queue's file
    assert looked("B", 7) == (GetStatus.FOUND, 1, 38)  # what an answer holds spans no more than one look
    assert looked("B", 7, 38) == (GetStatus.FOUND, 1, 40)
    assert looked("C", 10) == (GetStatus.NO_MATCHED_MESSAGE, 0, 40)
    assert looked("C", 10, 40) == (GetStatus.OFFSET_OVERFLOW_ONE, 0, 40)


def test_a_look_further_on_says_nothing_of_damage_before_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LEAST_EXAMINED_NOW", 8)
    store = tagged(tmp_path, "A" * 20)
    assert store.flush()
    queue = store._queues.find(("T", 0))
    assert queue is not None
    queue.correct_unit(12, UNIT.pack(1_000, 0, 1))
    wanted = WantedCodes(frozenset({tags_code("B")}))
    found = [store.get_messages_now("T", 0, offset, 2, ALL, Wanted(wanted)) for offset in (0, 12)]
    assert [result and (result.status, result.next_begin_offset) for result in found] == [
        (GetStatus.NO_MATCHED_MESSAGE, 12),
        (GetStatus.MESSAGE_DAMAGED, 12),
    ]


def test_a_filtered_read_that_waits_reads_neighbours_at_once(tmp_path: Path) -> None:
    disk = CountedReads()
    store = opened(tmp_path, disk=disk)
    for number in range(40):
        put(store, message(b"%02d" % number * 20))
    disk.log_reads = 0
    result = store.get_messages("T", 0, 0, 32, ALL, Wanted(by_record=each(lambda record: b"07" * 20 in record)))
    assert (result.count, result.next_begin_offset) == (1, 10)
    assert disk.log_reads <= 2


class CountedReads(Disk):
    """Counts reads of the commit log."""

    log_reads = 0

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        self.log_reads += self.open_fds[fd].parts[-2] == "commitlog"
        return super().pread(fd, count, offset)


def test_of_records_that_are_not_all_there_those_that_are_get_looked_into(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(5):
        put(store, message(b"%02d" % number * 20))
    queue = store._queues.make("T", 0)
    unit = queue.unit(2)
    assert unit is not None
    position, size, _ = unit
    store.flush()
    overwrite(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 2 * 20, UNIT.pack(position + 1, size, 0))
    looked_into: list[bytes] = []

    def accepts(record: bytes) -> bool:
        looked_into.append(parse_record(record).body[:2])
        return record.find(b"04" * 20) >= 0

    result = store.get_messages("T", 0, 0, 32, ALL, Wanted(by_record=each(accepts)))
    assert looked_into == [b"00", b"01", b"03", b"04"]
    assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 5)


@pytest.mark.parametrize("offset", [-1, 20, 21, 1 << 60])
def test_an_offset_without_a_message_needs_no_disk(tmp_path: Path, offset: int) -> None:
    store = _filled(tmp_path, Memory())
    now = store.get_messages_now("T", 0, offset, 5, ALL)
    slow = store.get_messages("T", 0, offset, 5, ALL)
    assert now is not None
    assert (now.status, now.next_begin_offset) == (slow.status, slow.next_begin_offset)
    assert store.get_messages_now("Unknown", 0, 0, 5, ALL) is not None


def test_what_was_written_last_is_read_without_asking_what_is_in_memory(tmp_path: Path) -> None:
    store = _filled(tmp_path, Memory("0"))
    store.get_messages("T", 0, 0, 1, ALL)
    assert store.get_messages_now("T", 0, 0, 1, ALL) is None
    put(store, message(b"new"))
    now = store.get_messages_now("T", 0, 20, 1, ALL)
    assert now is not None
    assert now.count == 1


def test_a_log_file_that_retention_took_is_left_to_the_thread(tmp_path: Path) -> None:
    store = _filled(tmp_path, Memory("commitlog", "0"))
    assert store.get_messages("T", 0, 0, 1, ALL).count == 1
    remove_first(store._log.files)
    now = store.get_messages_now("T", 0, 0, 1, ALL)
    assert now is None or now.status is GetStatus.MESSAGE_WAS_REMOVING


def test_reading_ahead_asks_for_the_next_records_in_as_few_ranges_as_their_distance_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Memory()
    store = _filled(tmp_path, disk)
    store.get_messages("T", 0, 0, 20, ALL)
    store.read_ahead("T", 0, 5)
    units = [unit for offset in range(5, 10) if (unit := store._queues.make("T", 0).unit(offset))]
    end = units[-1][0] + units[-1][1]
    asked = [(int(name) + start, int(name) + start + count) for name, start, count in disk.ahead]
    assert asked[0][0] == units[0][0], "from the next message on"
    assert asked[-1][1] >= end or len(asked) > 1
    assert sum(stop - start for start, stop in asked) >= sum(size for _, size, _ in units)
    assert len(asked) <= 1 + units[-1][0] // 8192, "neighbours are one range, a file's end begins another"
    disk.ahead.clear()
    monkeypatch.setattr(queue_reader, "AHEAD_GAP_BYTES", 0)
    monkeypatch.setattr(queue_reader, "AHEAD_RANGES", 3)
    store.read_ahead("T", 0, 0)
    assert len(disk.ahead) == 3
    disk.ahead.clear()
    monkeypatch.setattr(queue_reader, "AHEAD_BYTES", 1)
    store.read_ahead("T", 0, 0)
    assert len(disk.ahead) == 1
    store.read_ahead("Unknown", 0, 0)
    store.read_ahead("T", 0, 20)
    assert len(disk.ahead) == 1


def test_the_page_cache_itself_is_asked(tmp_path: Path) -> None:
    files = FileLayer()
    large = replace(SMALL, mapped_file_size_commit_log=8 * MIB, max_message_size=MIB)
    store = opened(tmp_path / "s", large)
    for _ in range(5):
        put(store, b"x" * (MIB - 1000))
    store.close()
    store = opened(tmp_path / "s", large, disk=files)

    def found_now() -> GetResult | None:
        return store.get_messages_now("T", 0, 0, 5, 8 * MIB)

    first = store.get_messages("T", 0, 0, 5, 8 * MIB)
    if not files.sees_memory or found_now() is None:
        pytest.skip("this file system cannot tell what is in memory; ext4, xfs and btrfs can")
    assert is_left_to_the_disk(found_now, lambda: evict(path for path in (tmp_path / "s").rglob("*") if path.is_file()))
    assert list(store.get_messages("T", 0, 0, 5, 8 * MIB).parts) == list(first.parts)
    now = found_now()
    assert now is not None
    assert list(now.parts) == list(first.parts)
    assert sum(map(len, now.parts)) > 4 * MIB


def test_checking_many_scattered_messages_walks_their_units_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path, replace(SMALL, mapped_file_size_consume_queue=20_000))
    for number in range(100):
        put(store, message(b"%02d" % number, queue_id=number % 2))
    store.close()
    again = opened(tmp_path, replace(SMALL, mapped_file_size_consume_queue=20_000))
    monkeypatch.delattr(
        "gateway.store.reading.read_check.units_before"
    )  # which looks through all units for one of them

    found = again.get_messages("T", 1, 0, 50, ALL)

    assert [record.body for record in parse_records(b"".join(found.parts))] == [b"%02d" % n for n in range(1, 100, 2)]


def test_a_message_in_memory_is_read_by_its_place_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    store = opened(tmp_path)
    _, second, third = (put(store, message(b"%02d" % number)) for number in range(3))
    place, size = second.commit_log_offset, second.size
    found = store.message_now(place, size)
    assert found is not None
    assert found.body == b"01"
    end = third.commit_log_offset + third.size
    for nothing in ((place + 1, size), (place, 0), (place, -1), (-1, size), (end, size), (place, end), (place, 20)):
        assert store.message_now(*nothing) is None


@pytest.mark.parametrize("held", [(), ("commitlog",)])
def test_a_message_that_waits_for_the_disk_is_not_read_now(tmp_path: Path, held: tuple[str, ...]) -> None:
    store = _filled(tmp_path, Memory(*held))
    [record] = parse_records(b"".join(store.get_messages("T", 0, 3, 1, ALL).parts))
    place = record.commit_log_offset, record.total_size
    assert (store.message_now(*place) is None) == (not held)
    assert store.message_at(*place) is not None
