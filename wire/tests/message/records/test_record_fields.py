from __future__ import annotations

import re
import timeit
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import RecordError
from wire.message import record_fields
from wire.message.flags import SysFlag
from wire.message.record import OutgoingMessage, build_record, parse_record
from wire.message.record_layout import FLAGS_AT, HEADS, MAGIC_V1, MIN_RECORD_BYTES
from wire.tests.message.strategies import QUICK, int64s, messages

READERS: dict[str, Callable[..., int]] = {
    name.removesuffix("_at"): getattr(record_fields, name)
    for name in vars(record_fields)
    if name.endswith("_at") and not name.startswith("_")
}


def test_there_is_a_reader_for_what_recovery_and_searches_need() -> None:
    assert {"total_size", "queue_offset", "commit_log_offset", "sys_flag", "stored_at_ms"} <= READERS.keys()


@QUICK
@given(messages, int64s, int64s, int64s, st.integers(0, 5), st.booleans())
def test_each_field_is_what_the_whole_record_says(
    message: OutgoingMessage, queue_offset: int, place: int, time_ms: int, before: int, viewed: bool
) -> None:
    raw = bytes(before) + build_record(message, queue_offset, place, time_ms)
    stored = parse_record(raw, before)
    for name, read in READERS.items():
        assert read(memoryview(raw) if viewed else raw, before) == getattr(stored, name), name


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_field_beyond_the_end_is_a_record_error(name: str) -> None:
    with pytest.raises(RecordError, match=f"cut off before {name}: 2 bytes left"):
        READERS[name](bytes(2))
    with pytest.raises(RecordError, match="cut off"):
        READERS[name](bytes(100), 98)


@QUICK
@given(messages, st.integers(0, 5), st.integers(0, 5))
def test_the_properties_of_a_record_in_a_buffer_are_found(message: OutgoingMessage, before: int, behind: int) -> None:
    record = build_record(message, 1, 2, 3)
    raw, end = bytes(before) + record + bytes(behind), before + len(record)
    start = record_fields.properties_start(raw, before, end)
    assert raw[start:end] == parse_record(record).properties
    for cut in (before, before + 1, end - 1, end + 1, len(raw) + 1):
        assert cut == end or record_fields.properties_start(raw, before, cut) == -1


@QUICK
@given(messages, st.data())
def test_the_properties_of_a_damaged_record_lie_in_it_or_are_not_found(
    message: OutgoingMessage, data: st.DataObject
) -> None:
    raw = bytearray(build_record(message, 1, 2, 3))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]
    start = record_fields.properties_start(bytes(raw), 0, len(raw))
    assert start == -1 or MIN_RECORD_BYTES <= start <= len(raw)


def test_lengths_that_do_not_add_up_are_a_damaged_record() -> None:
    head, tail = HEADS[0], b"\x01T\x00\x04a\x01b\x02"
    whole = bytearray(head.size) + tail
    for at, value in ((head.offset("total_size"), len(whole)), (head.offset("magic"), MAGIC_V1 & 0xFFFFFFFF)):
        whole[at : at + 4] = value.to_bytes(4, "big")
    assert record_fields.properties_start(bytes(whole), 0, len(whole)) == len(whole) - 4
    body_bytes, topic_bytes, properties_bytes = head.size - 1, head.size, head.size + 3
    for at in (3, body_bytes - 3, body_bytes, topic_bytes, properties_bytes):
        damaged = bytearray(whole)
        damaged[at] ^= 0x81
        assert record_fields.properties_start(bytes(damaged), 0, len(damaged)) == -1, at


def test_a_damaged_record_without_room_for_longer_addresses_has_no_properties() -> None:
    short = bytearray(MIN_RECORD_BYTES)
    short[:4] = MIN_RECORD_BYTES.to_bytes(4, "big")
    short[FLAGS_AT] = SysFlag.HOSTS_MASK
    assert record_fields.properties_start(bytes(short), 0, len(short)) == -1


_PAIRS = re.compile(b"\x02(a|ab)\x01([^\x02]+)")


@QUICK
@given(st.lists(st.sampled_from([b"a", b"ab", b"b", b"\x01", b"\x02", b"\x02a\x01", b"1"]), max_size=16).map(b"".join))
def test_a_value_in_a_property_string_is_the_last_one_of_its_name(properties: bytes) -> None:
    expected = dict(_PAIRS.findall(b"\x02" + properties))
    for name in (b"a", b"ab"):
        mark = record_fields.property_mark(name.decode())
        for before, behind in ((b"", b""), (b"\x02", b"a\x01x"), (b"\x02a", b"\x02a\x01x"), (b"a\x01x", b"\x01y")):
            data, end = before + properties + behind, len(before + properties)
            assert record_fields.property_value(data, mark, len(before), end) == expected.get(name, b"")


def test_a_long_value_costs_little_more_than_its_copy() -> None:
    """A peer chooses the length, and filters count one step for sixteen bytes."""
    value = b"1" * 1_000_000
    pair = b"a\x01" + value + b"\x02"

    def quickest_s(work: Callable[[], bytes]) -> float:
        return min(timeit.repeat(work, number=1, repeat=20))

    copied_s = quickest_s(lambda: pair[2 : pair.index(b"\x02")])
    assert record_fields.value_from(pair, 2, len(pair)) == value
    assert quickest_s(lambda: record_fields.value_from(pair, 2, len(pair))) < 5 * copied_s
