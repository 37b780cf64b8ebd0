"""Statuses and next offsets of reads, and offsets by time."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.get_result import GetStatus
from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import SMALL, START_MS, Clock, bodies, message, opened, overwrite, put
from wire.disk.consume_queue import FILLER, UNIT
from wire.message.record import parse_records
from wire.message.tags import tags_code

ALL = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """Queue T/0 with 25 messages, every fifth of them with tag B."""
    store = opened(tmp_path)
    for number in range(25):
        put(store, message(b"%02d" % number, TAGS="B" if number % 5 == 0 else "A"))
    return store


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
    result = store.get_messages("T", 0, 1, 32, ALL, lambda code: code == wanted)
    assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 10)
    result = store.get_messages("T", 0, 1, 32, ALL, lambda code: code == 4711)
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)


def test_a_filtered_read_stops_behind_its_last_message(store: MessageStore) -> None:
    wanted = tags_code("B")
    result = store.get_messages("T", 0, 0, 1, ALL, lambda code: code == wanted)
    assert (result.count, result.next_begin_offset) == (1, 1)


def test_a_record_filter_looks_at_whole_records(store: MessageStore) -> None:
    result = store.get_messages("T", 0, 0, 32, ALL, None, lambda record: b"07" in bytes(record))
    assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 10)
    result = store.get_messages("T", 0, 0, 32, ALL, lambda _: True, lambda _: False)
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)
    result = store.get_messages("T", 0, 0, 2, ALL, None, lambda _: True)
    assert (result.count, result.next_begin_offset) == (2, 2)


def test_a_missing_queue_file_leads_to_the_next_one(store: MessageStore) -> None:
    queue = store._queues.make("T", 0)
    queue.remove_file(queue.starts[1])
    result = store.get_messages("T", 0, 12, 32, ALL)
    assert (result.status, result.next_begin_offset) == (GetStatus.OFFSET_FOUND_NULL, 20)


@pytest.mark.parametrize("by_record", [False, True])
def test_messages_that_retention_took_are_passed_over_and_none_that_exists(tmp_path: Path, by_record: bool) -> None:
    store = opened(tmp_path)
    for number in range(9):
        put(store, b"%d" % number * 2000)
    store._log.files.remove_first()
    accepts = (lambda _: True) if by_record else None
    gone = sum(1 for offset in range(9) if (unit := store._queues.make("T", 0).unit(offset)) and unit[0] < 8192)
    result = store.get_messages("T", 0, 0, 2, ALL, None, accepts)
    while result.status is GetStatus.MESSAGE_WAS_REMOVING:
        assert result.next_begin_offset <= gone
        result = store.get_messages("T", 0, result.next_begin_offset, 2, ALL, None, accepts)
    assert result.status is GetStatus.FOUND
    assert parse_records(b"".join(result.parts))[0].queue_offset == gone


@pytest.mark.parametrize("by_record", [False, True])
def test_when_all_messages_asked_for_are_gone_it_is_said(tmp_path: Path, by_record: bool) -> None:
    store = opened(tmp_path)
    for number in range(9):
        put(store, b"%d" % number * 2000)
    store._log.files.remove_first()
    accepts = (lambda _: True) if by_record else None
    queue = store._queues.make("T", 0)
    queue.max_offset = 3
    result = store.get_messages("T", 0, 0, 32, ALL, None, accepts)
    assert (result.status, result.next_begin_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 3)


def test_retention_in_the_middle_of_a_read_does_not_skip_messages_that_exist(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(9):
        put(store, b"%d" % number * 2000)
    taken: list[int] = []

    def accepts(code: int) -> bool:
        if not taken:
            taken.append(code)
            removed = store._log.files.remove_first()
            removed.__del__()  # nobody had opened it
        return True

    queue = store._queues.make("T", 0)
    result = store.get_messages("T", 0, 0, 32, ALL, accepts)
    last = queue.unit(result.next_begin_offset - 1)
    assert result.status is GetStatus.FOUND
    assert result.count == sum(
        1 for offset in range(9) if (unit := queue.unit(offset)) and unit[0] >= store.min_commit_log_offset
    )
    assert last is not None
    assert not (tmp_path / "commitlog" / f"{0:020d}").exists(), "a reader makes no file"


@pytest.mark.parametrize("unit", [FILLER, UNIT.pack(0, 1 << 30, 0), UNIT.pack(0, -5, 0)])
@pytest.mark.parametrize("by_record", [False, True])
def test_a_unit_that_leads_nowhere_costs_no_memory_and_hides_no_other(
    tmp_path: Path, unit: bytes, by_record: bool
) -> None:
    store = opened(tmp_path)
    for number in range(3):
        put(store, b"%d" % number)
    overwrite(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 20, unit)
    accepts = (lambda _: True) if by_record else None
    result = store.get_messages("T", 0, 0, 32, ALL, None, accepts)
    if result.next_begin_offset < 3:
        assert result.count == 1
        result = store.get_messages("T", 0, result.next_begin_offset, 32, ALL, None, accepts)
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
