"""Units of consume queue extensions against bytes that Apache RocketMQ 5.5.0 (``ConsumeQueueExt``) wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.queue_extension import (
    END_MARK,
    FIRST_ADDRESS,
    HEAD,
    LAST_ADDRESS,
    MAX_BITMAP_BYTES,
    ExtensionUnit,
    address_of,
    bits_text,
    is_address,
    position_of,
)
from wire.errors import LayoutError
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK

WITH_BITMAP = bytes.fromhex("0022 0000000000000005 00000000000003e8 000e 0000000000000000000000000000")
WITHOUT = bytes.fromhex("0014 0000000000000006 00000000000003e9 0000")
units = st.builds(
    ExtensionUnit,
    st.integers(LAST_ADDRESS + 1, 2**63 - 1),
    st.integers(1, 2**63 - 1),
    st.binary(max_size=40),
)


def test_a_unit_is_size_tags_code_store_time_and_bitmap() -> None:
    assert ExtensionUnit(5, 1000, bytes(14)).build() == WITH_BITMAP
    assert ExtensionUnit(6, 1001).build() == WITHOUT
    assert ExtensionUnit.parse(WITH_BITMAP + WITHOUT) == ExtensionUnit(5, 1000, bytes(14))
    assert ExtensionUnit.parse(WITH_BITMAP + WITHOUT, 34) == ExtensionUnit(6, 1001)
    assert HEAD.size == 20
    assert bytes.fromhex("ffff0000") == END_MARK


@QUICK
@given(values_of(HEAD))
def test_declared_and_derived_heads_agree(values: tuple[int, ...]) -> None:
    assert_declared_and_derived_agree(HEAD, values)


@QUICK
@given(units, st.binary(max_size=8))
def test_units_come_back(unit: ExtensionUnit, behind: bytes) -> None:
    raw = unit.build()
    assert len(raw) == unit.size
    assert ExtensionUnit.parse(raw + behind) == unit
    for cut in range(len(raw)):
        with pytest.raises(LayoutError):
            ExtensionUnit.parse(raw[:cut])


@QUICK
@given(st.binary(min_size=20, max_size=60))
def test_anything_else_is_a_unit_or_refused(raw: bytes) -> None:
    try:
        unit = ExtensionUnit.parse(raw)
    except LayoutError:
        return
    assert raw.startswith(unit.build())


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (bytes(20), "a consume queue extension unit of 0 bytes has a bitmap of 0"),
        (END_MARK + bytes(16), "of -1 bytes"),
        (HEAD.pack(21, 5, 1000, 0), "of 21 bytes has a bitmap of 0"),
        (HEAD.pack(18, 5, 1000, -2), "bitmap of -2"),
        (HEAD.pack(20, LAST_ADDRESS, 1000, 0), "no message has tags code -2147483649"),
        (HEAD.pack(20, 5, 0, 0), "stored at 0"),
        (HEAD.pack(22, 5, 1000, 2) + b"x", "1 of 2 bytes"),
    ],
)
def test_what_is_wrong_with_a_unit_is_said(raw: bytes, said: str) -> None:
    with pytest.raises(LayoutError, match=said):
        ExtensionUnit.parse(raw)


def test_a_bitmap_is_no_longer_than_its_size_says() -> None:
    assert ExtensionUnit(1, 1, bytes(MAX_BITMAP_BYTES)).size == 2**15 - 1
    with pytest.raises(LayoutError, match="32748 bytes, 32747 are possible"):
        ExtensionUnit(1, 1, bytes(MAX_BITMAP_BYTES + 1)).build()


def test_a_bitmap_is_shown_as_apache_rocketmq_shows_it() -> None:
    assert bits_text(bytes([0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0, 4])) == (
        "000001000000000000000000000000000000000000001000\n"
        "0000000000000000000000000000000000000001000000000000000000000000\n"
    )
    assert bits_text(b"") == ""


def test_addresses_begin_at_the_smallest_number_and_end_below_all_hashes() -> None:
    assert address_of(0) == FIRST_ADDRESS == -9223372036854775808
    assert position_of(address_of(34)) == 34
    assert [is_address(code) for code in (FIRST_ADDRESS, -2147483649, -2147483648, -1, 0, 2**62)] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
