from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import RecordError
from wire.message import record_fields
from wire.message.record import OutgoingMessage, build_record, parse_record
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
@given(messages, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_the_properties_in_a_record_are_those_of_the_whole_record(
    message: OutgoingMessage, before: int, behind: int, viewed: bool
) -> None:
    raw = bytes(before) + build_record(message, 1, 2, 3) + bytes(behind)
    found = record_fields.properties_in(memoryview(raw) if viewed else raw, before)
    assert found == parse_record(raw, before).properties


@QUICK
@given(messages, st.data())
def test_the_properties_in_a_damaged_record_are_found_or_a_record_error(
    message: OutgoingMessage, data: st.DataObject
) -> None:
    raw = bytearray(build_record(message, 1, 2, 3))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]
    try:
        found = record_fields.properties_in(raw)
    except RecordError:
        return
    assert found in bytes(raw)
