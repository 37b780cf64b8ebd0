from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from wire.disk.index_file import (
    ENTRY,
    FIRST_ENTRY,
    HEAD,
    SLOT,
    IndexHead,
    IndexShape,
    entry_may_match,
)
from wire.errors import LayoutError, LocalError
from wire.fixed_layout import FixedLayout
from wire.layout_writers import write_index_entry
from wire.message.java_hash import index_key_hash
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK

SMALL = IndexShape(slots=10, entries=20)


def test_a_file_of_the_default_size_is_as_large_as_upstreams() -> None:
    assert IndexShape().file_bytes == 420_000_040


def test_slots_and_entries_follow_the_header() -> None:
    assert [HEAD.offset(name) for name in HEAD.names] == [0, 8, 16, 24, 32, 36]
    assert [ENTRY.offset(name) for name in ENTRY.names] == [0, 4, 12, 16]
    assert SMALL.slot_position(0) == 40
    assert SMALL.slot_position(9) == 76
    assert SMALL.entry_position(0) == 80
    assert SMALL.entry_position(1) == 100
    assert SMALL.entry_position(20) == SMALL.file_bytes == 480


def test_a_key_goes_to_the_slot_of_its_hash() -> None:
    key_hash = index_key_hash("TopicTest", "key")
    assert SMALL.slot_of(key_hash) == key_hash % 10
    assert IndexShape().slot_of(2**31 - 1) == (2**31 - 1) % 5_000_000


@pytest.mark.parametrize("layout", [HEAD, ENTRY, SLOT], ids=lambda layout: layout.name)
def test_declared_and_derived_layouts_agree(layout: FixedLayout) -> None:
    @QUICK
    @given(values_of(layout))
    def agree(values: tuple[int, ...]) -> None:
        assert_declared_and_derived_agree(layout, values)

    agree()


HEAD_VECTOR = bytes.fromhex("0000018bcfe56800 0000018bcfe56be8 00000000000004d2 00000000000010e1 00000002 00000004")


def test_a_header_is_laid_out_as_documented() -> None:
    head = IndexHead(1_700_000_000_000, 1_700_000_001_000, 1234, 4321, 2, 4)
    assert head.build() == HEAD_VECTOR
    assert IndexHead.parse(HEAD_VECTOR + b"slots") == head


times = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**31 - 1)


@QUICK
@given(st.builds(IndexHead, times, times, times, times, counts, st.integers(1, 2**31 - 1)))
def test_headers_come_back(head: IndexHead) -> None:
    assert IndexHead.parse(head.build()) == head


def test_a_new_file_starts_with_entry_one() -> None:
    assert IndexHead.parse(bytes(40)) == IndexHead()
    assert IndexHead().next_entry == FIRST_ENTRY == 1


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "takes 40 bytes, found 0"),
        (bytes(39), "takes 40 bytes, found 39"),
        (bytes(32) + b"\xff\xff\xff\xff" + bytes(4), "counts -1 slots"),
        (bytes(36) + b"\x80\x00\x00\x00", "entry -2147483648"),
    ],
)
def test_a_damaged_header_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        IndexHead.parse(raw)


@QUICK
@given(st.binary(max_size=50))
def test_any_bytes_are_a_header_or_a_layout_error(raw: bytes) -> None:
    try:
        head = IndexHead.parse(raw)
    except LayoutError:
        return
    assert head.next_entry >= 1


@pytest.mark.parametrize(("slots", "entries"), [(0, 20), (10, 1), (-1, -1)])
def test_an_index_without_room_is_not_made(slots: int, entries: int) -> None:
    with pytest.raises(LocalError):
        IndexShape(slots, entries)


@pytest.mark.parametrize(
    ("entry", "next_entry", "expected"),
    [
        (0, 5, False),
        (1, 5, True),
        (4, 5, True),
        (5, 5, False),
        (-3, 5, False),
        (19, 99, True),
        (20, 99, False),
    ],
)
def test_only_numbers_of_entries_in_use_are_followed(entry: int, next_entry: int, expected: bool) -> None:
    assert SMALL.is_entry(entry, next_entry) is expected


def test_a_file_is_full_when_its_last_entry_is_used() -> None:
    assert not SMALL.is_full(19)
    assert SMALL.is_full(20)


def test_an_entry_outside_of_the_range_does_not_match() -> None:
    assert not entry_may_match(10_000, 5, 16_000, 20_000)
    assert not entry_may_match(10_000, 5, 0, 14_999)


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "expected"),
    [(0, 99, False), (0, 100, True), (150, 160, True), (200, 300, True), (201, 300, False)],
)
def test_files_are_searched_when_their_time_overlaps(begin_ms: int, end_ms: int, expected: bool) -> None:
    assert IndexHead(begin_ms=100, end_ms=200).overlaps(begin_ms, end_ms) is expected


_positive = st.integers(0, 2**31 - 1)


@QUICK
@given(st.lists(st.tuples(_positive, st.integers(0, 2**63 - 1), _positive, _positive), max_size=40))
def test_entries_are_written_as_declared(entries: list[tuple[int, int, int, int]]) -> None:
    written = BytesWriter()
    for entry in entries:
        write_index_entry(written, *entry)
    assert written.getvalue() == b"".join(ENTRY.pack(*entry) for entry in entries)
