from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from wire.fixed_layout import FixedLayout
from wire.message.flags import SysFlag
from wire.message.record import (
    HEADS,
    MIN_RECORD_BYTES,
    head_layout,
)
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK


def test_offsets_come_from_the_declaration() -> None:
    head = HEADS[0]
    assert head.size == 88
    assert [head.offset(name) for name in ("queue_offset", "commit_log_offset", "sys_flag")] == [20, 28, 36]
    assert [head.offset(name) for name in ("born_host", "stored_at_ms", "store_host")] == [48, 56, 64]
    assert [head.offset(name) for name in ("reconsume_times", "prepared_transaction_offset")] == [72, 76]
    assert MIN_RECORD_BYTES == 91


def test_heads_grow_with_the_addresses() -> None:
    sizes = {flags: layout.size for flags, layout in HEADS.items()}
    assert sizes == {0: 88, SysFlag.BORN_HOST_V6: 100, SysFlag.STORE_HOST_V6: 100, SysFlag.HOSTS_MASK: 112}
    assert head_layout(born_v6=True, store_v6=False).offset("stored_at_ms") == 68
    assert head_layout(born_v6=False, store_v6=True).offset("stored_at_ms") == 56


@pytest.mark.parametrize("layout", HEADS.values(), ids=lambda layout: layout.name)
def test_declared_and_derived_heads_agree(layout: FixedLayout) -> None:
    @QUICK
    @given(values_of(layout))
    def agree(values: tuple[Any, ...]) -> None:
        assert_declared_and_derived_agree(layout, values)

    agree()
