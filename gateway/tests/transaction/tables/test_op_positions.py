"""The op records that are still needed, against the plain definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.transaction.tables.op_positions import RANGE_BITS, OpPositions

RANGE = 1 << RANGE_BITS


def test_without_op_records_the_end_is_needed() -> None:
    assert OpPositions().needed_from(5) == 0


def test_a_record_is_needed_until_the_base_left_its_range() -> None:
    ops = OpPositions()
    ops.note(10, 0)
    ops.note(RANGE + 1, 1)
    assert ops.needed_from(0) == 0
    assert ops.needed_from(RANGE - 1) == 0
    assert ops.needed_from(RANGE) == 1
    assert ops.needed_from(2 * RANGE) == 2


@given(st.lists(st.integers(0, 8 * RANGE), max_size=40), st.lists(st.integers(0, 8 * RANGE), max_size=10))
def test_no_needed_record_is_ever_left_out(halves: list[int], bases: list[int]) -> None:
    ops = OpPositions()
    for base in sorted(bases):
        for op_offset, half in enumerate(halves):
            if half >= base:
                ops.note(half, op_offset)
        needed = [op_offset for op_offset, half in enumerate(halves) if half >= base]
        assert ops.needed_from(base) <= min(needed, default=ops.end)
