"""Fixed layouts: the packer derived from a declaration agrees with the declaration."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from construct import Bytes, Int8ub, Int16sb, Int16ul, Int32sb, Int32ub, Int64sb, Struct, VarInt
from hypothesis import given, settings

from wire.errors import LocalError
from wire.fixed_layout import FixedLayout
from wire.frame import BINARY_HEAD, FRAME_HEAD
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of

SAMPLE = FixedLayout(
    "sample",
    Struct("kind" / Int8ub, "small" / Int16sb, "host" / Bytes(8), "middle" / Int32sb, "large" / Int64sb),
)


def test_several_layouts_are_one_row_of_values() -> None:
    one, two = (1, 2, b"12345678", 3, 4), (5, 6, b"abcdefgh", 7, 8)
    row = SAMPLE.repeated(2).unpack(SAMPLE.pack(*one) + SAMPLE.pack(*two))
    assert row == (*one, *two)
    assert row[3 :: len(SAMPLE.names)] == (3, 7)


@pytest.mark.parametrize("layout", [SAMPLE, FRAME_HEAD, BINARY_HEAD], ids=lambda layout: layout.name)
def test_packer_and_declaration_agree_both_ways(layout: FixedLayout) -> None:
    @settings(deadline=None)
    @given(values_of(layout))
    def agree(values: tuple[Any, ...]) -> None:
        assert_declared_and_derived_agree(layout, values)

    agree()


def test_offsets_and_sizes_follow_from_the_declaration() -> None:
    assert SAMPLE.names == ("kind", "small", "host", "middle", "large")
    assert [SAMPLE.offset(name) for name in SAMPLE] == [0, 1, 3, 11, 15]
    assert SAMPLE.size == 23 == SAMPLE.declaration.sizeof()
    assert (FRAME_HEAD.size, BINARY_HEAD.size) == (8, 17)


def test_one_field_is_patched_in_place() -> None:
    buffer = bytearray(SAMPLE.size + 2)
    SAMPLE.pack_into(buffer, 2, 1, 2, b"01234567", 3, 4)

    SAMPLE.packer("middle").pack_into(buffer, 2 + SAMPLE.offset("middle"), -9)

    assert SAMPLE.unpack_from(buffer, 2) == (1, 2, b"01234567", -9, 4)


def test_a_row_of_units_is_read_in_one_go() -> None:
    rows = [(1, 2, b"aaaaaaaa", 3, 4), (5, 6, b"bbbbbbbb", 7, 8)]

    assert list(SAMPLE.iter_unpack(b"".join(SAMPLE.pack(*row) for row in rows))) == rows


@pytest.mark.parametrize("declaration", [Struct("a" / Int16ul), Struct("a" / VarInt), Struct("a" / Bytes(lambda _: 3))])
def test_what_is_not_fixed_and_big_endian_cannot_be_declared(declaration: Struct) -> None:
    with pytest.raises(LocalError, match="layout odd"):
        FixedLayout("odd", declaration)


def test_a_member_without_a_name_cannot_be_declared() -> None:
    with pytest.raises(LocalError, match="needs a name"):
        FixedLayout("odd", Struct(Int32ub))


def test_an_unknown_field_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        SAMPLE.offset("nothing")


def test_a_number_too_large_for_its_field_is_refused() -> None:
    with pytest.raises(struct.error):
        FRAME_HEAD.pack(2**32, 0)


def test_some_fields_are_picked_out_and_the_others_passed_over() -> None:
    layout = FixedLayout("four", Struct("a" / Int32ub, "b" / Int64sb, "c" / Bytes(3), "d" / Int32ub))
    raw = layout.pack(1, -2, b"xyz", 4)

    assert layout.picker(("b", "d")).unpack_from(raw) == (-2, 4)
    assert layout.picker(("a",)).unpack(raw) == (1,)
    assert layout.picker(("a", "b")).size == layout.size
