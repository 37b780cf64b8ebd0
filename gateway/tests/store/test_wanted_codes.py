"""Searching units for tags codes finds what looking at each unit finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store import queue_reader
from gateway.store.get_result import GetStatus
from gateway.store.message_store import MessageStore
from gateway.store.wanted_codes import WantedCodes, have_usual_sizes
from gateway.tests.store.small_store import SMALL, Disk, message, opened, overwrite, put
from wire.disk.consume_queue import FILLER, UNIT
from wire.message.tags import tags_code

ALL = 1 << 20
FILE_BYTES = 1 << 30
CODES = (5, 7, 5 + 256, -5, -(1 << 31), (1 << 31) - 1, 7 << 8)
"""Some have the same last byte."""
UNITS_A_STEP = 8


def test_only_the_codes_named_are_wanted() -> None:
    wanted = WantedCodes([5, -5])
    assert [wanted(code) for code in (5, -5, 0, 5 + 256)] == [True, True, False, False]


@given(st.sets(st.sampled_from(CODES), min_size=1), st.lists(st.sampled_from(CODES)))
def test_no_unit_with_a_wanted_code_is_missed(wanted: set[int], codes: list[int]) -> None:
    units = b"".join(UNIT.pack(1000 + number, 100, code) for number, code in enumerate(codes))
    found = WantedCodes(wanted).numbers(units)
    assert found == sorted(set(found))
    assert {number for number, code in enumerate(codes) if code in wanted} <= set(found)
    assert all(codes[number] & 0xFF in {code & 0xFF for code in wanted} for number in found)


@pytest.mark.parametrize(
    ("size", "is_usual"),
    [
        (1, True), (255, True), (256, True), (65536, True), ((1 << 24) - 1, True),
        (0, False), (-1, False), (-(1 << 31), False), (1 << 24, False), ((1 << 31) - 1, False),
    ],
)  # fmt: skip
def test_a_size_that_no_record_has_is_unusual(size: int, is_usual: bool) -> None:
    units = [UNIT.pack(0, 256, 0)] * 5
    units[3] = UNIT.pack(0, size, 0)
    assert have_usual_sizes(b"".join(units)) is is_usual


@given(
    st.lists(
        st.tuples(st.sampled_from((100, 256, 256, 65536, 0, -1, 1 << 24, FILE_BYTES + 1)), st.sampled_from(CODES)),
        min_size=1,
        max_size=60,
    ),
    st.sets(st.sampled_from(CODES), min_size=1, max_size=3),
    st.integers(1, 12),
    st.sampled_from((300, 1000, 100_000)),
    st.sampled_from((0, 900, 2000)),
)
def test_searching_chooses_what_looking_at_each_unit_chooses(
    records: list[tuple[int, int]], wanted: set[int], max_count: int, max_bytes: int, log_min: int
) -> None:
    units, position = b"", 1000
    for size, code in records:
        units += UNIT.pack(position, size, code)
        position += max(size, 0) % FILE_BYTES
    searched, singly = (queue_reader._Choice(max_count, max_bytes, log_min, FILE_BYTES) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_reader, "FIRST_SEARCHED", 4)
        searched.take(units, WantedCodes(wanted))
    singly.take(units, lambda code: code in wanted)
    assert (searched.count, searched.total_bytes, searched.ranges, searched.last_size) == (
        singly.count, singly.total_bytes, singly.ranges, singly.last_size,
    )  # fmt: skip
    assert searched.examined >= singly.examined
    passed_over = records[singly.examined : searched.examined]
    assert not [code for _, code in passed_over if code in wanted]
    assert searched.gone >= singly.gone


@pytest.fixture
def by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read looks at 8 units, then at 40 at most."""
    monkeypatch.setattr(queue_reader, "LEAST_EXAMINED_NOW", UNITS_A_STEP)
    monkeypatch.setattr(queue_reader, "MOST_EXAMINED_NOW", 5 * UNITS_A_STEP)


def filled(directory: Path, disk: Disk | None = None) -> MessageStore:
    """Queue T/0 with 60 messages, 50 units a file, of which numbers 9, 19, … have tag B."""
    settings = replace(SMALL, mapped_file_size_commit_log=1 << 25, mapped_file_size_consume_queue=50 * UNIT.size)
    store = opened(directory, settings, disk=disk or Disk())
    for number in range(60):
        put(store, message(b"%02d" % number, TAGS="B" if number % 10 == 9 else "A"))
    return store


@pytest.fixture
def store(tmp_path: Path, by_steps: None) -> MessageStore:
    return filled(tmp_path)


@pytest.mark.parametrize(
    ("tag", "offset", "max_count", "found", "next_offset"),
    [
        ("B", 0, 32, 4, 40),  # not more than a read looks at
        ("B", 0, 2, 2, 24),  # what was searched with the last of them is done with
        ("B", 45, 32, 2, 60),  # on to the next file
        ("B", 50, 32, 1, 60),  # up to the end of the queue
        ("A", 0, 3, 3, 3),
        ("C", 0, 32, 0, 40),
        ("C", 55, 32, 0, 60),
    ],
)
def test_a_read_by_tag_goes_on_until_it_has_enough_or_has_looked_at_enough(
    store: MessageStore, tag: str, offset: int, max_count: int, found: int, next_offset: int
) -> None:
    result = store.get_messages_now("T", 0, offset, max_count, ALL, WantedCodes([tags_code(tag)]))
    assert result is not None
    assert (result.count, result.next_begin_offset) == (found, next_offset)
    assert result.status is (GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE)


def test_a_read_by_tag_that_is_full_of_bytes_goes_no_further(store: MessageStore) -> None:
    size = store.get_messages("T", 0, 9, 1, ALL).total_bytes
    result = store.get_messages_now("T", 0, 0, 32, 2 * size, WantedCodes([tags_code("B")]))
    assert result is not None
    assert result.count == 2
    assert result.next_begin_offset <= 29
    rest = store.get_messages_now("T", 0, result.next_begin_offset, 32, ALL, WantedCodes([tags_code("B")]))
    assert rest is not None
    assert rest.count == 4


def test_reads_by_tag_one_after_the_other_give_each_message_once(store: MessageStore) -> None:
    for max_count in (1, 2, 3, 32):
        offset, given_out = 0, 0
        while offset < 60:
            result = store.get_messages_now("T", 0, offset, max_count, ALL, WantedCodes([tags_code("B")]))
            assert result is not None
            assert result.next_begin_offset > offset
            given_out += result.count
            offset = result.next_begin_offset
        assert given_out == 6


def test_what_waits_for_the_disk_further_on_is_left_to_the_next_read(tmp_path: Path, by_steps: None) -> None:
    store = filled(tmp_path, disk=PartlyInMemory())
    wanted = WantedCodes([tags_code("B")])
    result = store.get_messages_now("T", 0, 0, 8, ALL, wanted)
    assert result is not None
    assert (result.count, result.next_begin_offset) == (2, 24)
    assert store.get_messages_now("T", 0, 24, 32, ALL, wanted) is None


class PartlyInMemory(Disk):
    """The first units of a consume queue are in memory."""

    def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
        is_queue = "consumequeue" in self.open_fds[fd].parts
        return None if is_queue and offset >= 24 * UNIT.size else super().pread_now(fd, count, offset)


@pytest.mark.parametrize("unit", [UNIT.pack(0, 0, 0), UNIT.pack(0, 1 << 30, 0), UNIT.pack(0, -5, 0)])
def test_a_damaged_unit_is_told_of_although_its_code_is_not_wanted(
    store: MessageStore, tmp_path: Path, unit: bytes
) -> None:
    overwrite(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 12 * UNIT.size, unit)
    wanted = WantedCodes([tags_code("B")])
    result = store.get_messages_now("T", 0, 0, 32, ALL, wanted)
    assert result is not None
    assert (result.status, result.count, result.next_begin_offset) == (GetStatus.FOUND, 1, 12)
    result = store.get_messages_now("T", 0, 12, 32, ALL, wanted)
    assert result is not None
    assert (result.status, result.next_begin_offset) == (GetStatus.MESSAGE_DAMAGED, 12)


def test_fillers_are_passed_over_by_a_read_by_tag(store: MessageStore, tmp_path: Path) -> None:
    overwrite(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 0, FILLER * 5)
    result = store.get_messages_now("T", 0, 0, 1, ALL, WantedCodes([tags_code("B")]))
    assert result is not None
    assert (result.status, result.count) == (GetStatus.FOUND, 1)
