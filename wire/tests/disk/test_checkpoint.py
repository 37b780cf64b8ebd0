from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.checkpoint import FILE_BYTES, VALUES, StoreCheckpoint
from wire.errors import LayoutError
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK, int64s


def test_the_file_is_five_numbers_in_a_page() -> None:
    raw = StoreCheckpoint(1, 2, 3, 4, 5).build()
    assert len(raw) == FILE_BYTES == 4096
    assert raw[:40].hex() == "".join(f"{number:016x}" for number in (1, 2, 3, 4, 5))
    assert not any(raw[40:])


@QUICK
@given(values_of(VALUES))
def test_declared_and_derived_values_agree(values: tuple[int, ...]) -> None:
    assert_declared_and_derived_agree(VALUES, values)


@QUICK
@given(st.builds(StoreCheckpoint, int64s, int64s, int64s, int64s, int64s))
def test_checkpoints_come_back(checkpoint: StoreCheckpoint) -> None:
    assert StoreCheckpoint.parse(checkpoint.build()) == checkpoint


@pytest.mark.parametrize("size", [0, 1, 24, 39])
def test_a_file_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(LayoutError, match=f"at least 40 bytes, found {size}"):
        StoreCheckpoint.parse(bytes(size))


@QUICK
@given(st.binary(max_size=80))
def test_any_bytes_are_a_checkpoint_or_a_layout_error(raw: bytes) -> None:
    try:
        checkpoint = StoreCheckpoint.parse(raw)
    except LayoutError:
        assert len(raw) < 40
        return
    assert checkpoint.build()[:40] == raw[:40]


def test_recovery_goes_three_seconds_further_back() -> None:
    checkpoint = StoreCheckpoint(log_stored_at_ms=20_000, queues_stored_at_ms=10_000, index_stored_at_ms=5_000)
    assert checkpoint.recovery_time_ms() == 7_000
    assert checkpoint.recovery_time_ms(index_too=True) == 2_000
    assert StoreCheckpoint().recovery_time_ms() == 0
