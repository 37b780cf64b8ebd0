"""The three formats of the timer: their bytes, and that declared and derived layouts agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk import timer_checkpoint, timer_log, timer_wheel
from wire.disk.timer_checkpoint import TimerCheckpoint
from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK, int64s

LAYOUTS = [timer_log.ENTRY, timer_log.END_MARK, timer_wheel.SLOT, timer_checkpoint.VALUES]


@QUICK
@given(st.sampled_from(LAYOUTS).flatmap(lambda layout: st.tuples(st.just(layout), values_of(layout))))
def test_declared_and_derived_values_agree(found: tuple[FixedLayout, tuple[int, ...]]) -> None:
    assert_declared_and_derived_agree(*found)


def test_sizes_are_those_of_apache_rocketmq() -> None:
    assert (timer_log.ENTRY_BYTES, timer_wheel.SLOT_BYTES, timer_checkpoint.VALUES.size) == (52, 32, 56)
    assert timer_wheel.FILE_BYTES == 38_707_200
    assert timer_log.ENTRY.offset("commit_log_offset") == 28
    assert timer_log.ENTRY.offset("topic_hash") == 40


def test_an_entry_as_it_lies_on_disk() -> None:
    raw = timer_log.ENTRY.pack(52, -1, 1, 1000, 2000, 4096, 200, 7, 2750)
    assert raw.hex() == (
        "00000034ffffffffffffffff0000000100000000000003e8000007d00000000000001000000000c80000000700000000000000be"
    ).replace("00000000000000be", f"{2750:016x}")


def test_a_file_ends_where_an_entry_and_the_mark_would_not_fit() -> None:
    assert timer_log.room_for_entry(104_857_600 - 68, 104_857_600)
    assert not timer_log.room_for_entry(104_857_600 - 67, 104_857_600)
    mark = timer_log.build_end_mark(20)
    assert mark.hex() == "00000014" + "0" * 16 + "cbd43194" + "0" * 8
    assert not timer_log.is_entry(*timer_log.ENTRY.unpack_from(mark.ljust(52, b"\x00"))[0:3:2])


@pytest.mark.parametrize(
    ("size", "kind", "wanted"), [(52, 1, True), (52, 6, True), (0, 0, False), (52, 16, False), (52, 0, False)]
)
def test_entries_are_known_by_size_and_kind(size: int, kind: int, wanted: bool) -> None:
    assert timer_log.is_entry(size, kind) is wanted


@QUICK
@given(st.builds(TimerCheckpoint, *[int64s] * 7))
def test_checkpoints_come_back(checkpoint: TimerCheckpoint) -> None:
    assert TimerCheckpoint.parse(checkpoint.build()) == checkpoint


def test_a_checkpoint_that_is_cut_off_is_refused() -> None:
    with pytest.raises(LayoutError, match="takes 56 bytes, found 55"):
        TimerCheckpoint.parse(bytes(55))
