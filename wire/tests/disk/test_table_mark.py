from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.state_table import MARK_LAYOUT, TableMark
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK

MARK = TableMark(1_000, 2, 30, 4, 25, 7, is_whole=True)
SECTOR = 512
numbers = st.integers(0, 2**62)


@QUICK
@given(values_of(MARK_LAYOUT))
def test_declared_and_derived_marks_agree(values: tuple[int, ...]) -> None:
    assert_declared_and_derived_agree(MARK_LAYOUT, values)


@QUICK
@given(st.builds(TableMark, numbers, numbers, numbers, numbers, numbers, numbers, st.booleans()))
def test_a_mark_comes_back_and_fits_into_a_sector(mark: TableMark) -> None:
    assert TableMark.parse(mark.build()) == mark
    assert len(mark.build()) <= SECTOR


@pytest.mark.parametrize("at", range(MARK_LAYOUT.size))
def test_a_mark_with_any_damaged_byte_is_none(at: int) -> None:
    damaged = bytearray(MARK.build())
    damaged[at] ^= 0x10
    assert TableMark.parse(damaged) is None


@pytest.mark.parametrize("size", [0, 1, MARK_LAYOUT.size - 1])
def test_a_mark_cut_short_is_none(size: int) -> None:
    assert TableMark.parse(MARK.build()[:size]) is None
    assert TableMark.parse(bytes(MARK_LAYOUT.size)) is None
