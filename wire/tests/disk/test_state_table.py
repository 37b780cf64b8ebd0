from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.state_table import (
    COMMITTED,
    PREPARED,
    STATE_AT,
    UNIT,
    UNIT_BYTES,
    build_state,
    build_unit,
    parse_units,
    state_position,
)
from wire.errors import LayoutError
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK

SECTOR = 512
VECTOR = bytes.fromhex("00000000000004d2 00000073 684ee180 ffffffff 00000004")


def test_a_unit_is_offset_size_seconds_group_and_state() -> None:
    assert build_unit(1234, 115, 1_750_000_000_999, -1) == VECTOR
    assert parse_units(VECTOR) == [(1234, 115, 1_750_000_000, -1, PREPARED)]
    assert UNIT_BYTES == 24
    assert [UNIT.offset(name) for name in UNIT.names] == [0, 8, 12, 16, 20]


def test_a_state_is_overwritten_in_place() -> None:
    units = bytearray(VECTOR * 3)
    units[state_position(1) : state_position(1) + 4] = build_state(COMMITTED)
    assert [unit[4] for unit in parse_units(units)] == [PREPARED, COMMITTED, PREPARED]


def test_no_state_lies_across_two_sectors() -> None:
    assert all(state_position(index) % SECTOR <= SECTOR - (UNIT_BYTES - STATE_AT) for index in range(2 * SECTOR))


def test_a_store_time_after_2038_does_not_wrap() -> None:
    assert parse_units(build_unit(0, 1, 2**42, 0))[0][2] == 2**31 - 1


@QUICK
@given(values_of(UNIT))
def test_declared_and_derived_units_agree(values: tuple[int, ...]) -> None:
    assert_declared_and_derived_agree(UNIT, values)


@QUICK
@given(st.binary(max_size=80))
def test_any_bytes_are_units_or_a_layout_error(raw: bytes) -> None:
    if len(raw) % UNIT_BYTES:
        with pytest.raises(LayoutError, match="no whole number of 24-byte"):
            parse_units(raw)
    else:
        assert b"".join(UNIT.pack(*unit) for unit in parse_units(raw)) == raw
