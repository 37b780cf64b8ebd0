from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.consume_queue import (
    FILE_BYTES,
    FILLER,
    UNIT,
    UNIT_BYTES,
    build_unit,
    is_filler,
    is_written,
    parse_units,
)
from wire.errors import LayoutError
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK

VECTOR = bytes.fromhex("00000000000004d2 00000073 000000000027a807")


def test_a_unit_is_offset_size_and_tags_code() -> None:
    assert build_unit(1234, 115, 2598919) == VECTOR
    assert parse_units(VECTOR) == [(1234, 115, 2598919)]
    assert UNIT_BYTES == 20
    assert [UNIT.offset(name) for name in UNIT.names] == [0, 8, 12]


def test_a_file_holds_six_million_bytes() -> None:
    assert FILE_BYTES == 6_000_000


@QUICK
@given(values_of(UNIT))
def test_declared_and_derived_units_agree(values: tuple[int, ...]) -> None:
    assert_declared_and_derived_agree(UNIT, values)


@QUICK
@given(st.lists(values_of(UNIT), max_size=10))
def test_units_come_back(units: list[tuple[int, int, int]]) -> None:
    raw = b"".join(build_unit(*unit) for unit in units)
    assert parse_units(memoryview(raw)) == units


def test_a_negative_tags_code_is_kept_with_its_sign() -> None:
    assert build_unit(0, 1, -1).hex()[-16:] == "f" * 16


@pytest.mark.parametrize("size", [1, 19, 21, 39])
def test_half_a_unit_is_refused(size: int) -> None:
    with pytest.raises(LayoutError, match=f"{size} bytes are no whole number"):
        parse_units(bytes(size))


@QUICK
@given(st.binary(max_size=70))
def test_any_bytes_are_units_or_a_layout_error(raw: bytes) -> None:
    try:
        units = parse_units(raw)
    except LayoutError:
        assert len(raw) % 20
        return
    assert b"".join(build_unit(*unit) for unit in units) == raw


def test_the_filler_counts_as_written_but_points_to_nothing() -> None:
    ((commit_log_offset, size, tags_code),) = parse_units(FILLER)
    assert (commit_log_offset, size, tags_code) == (0, 0x7FFFFFFF, 0)
    assert is_filler(commit_log_offset, size)
    assert is_written(commit_log_offset, size)
    assert not is_filler(0, 115)


@pytest.mark.parametrize(("commit_log_offset", "size"), [(0, 0), (-1, 100), (5, -1), (5, 0)])
def test_what_was_never_written_is_recognised(commit_log_offset: int, size: int) -> None:
    assert not is_written(commit_log_offset, size)
