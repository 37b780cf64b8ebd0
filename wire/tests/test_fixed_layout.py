"""Fixed layouts: the packer derived from a declaration agrees with the declaration."""

from __future__ import annotations

import struct
from typing import Any

import construct
import pytest
from hypothesis import given, settings

from wire import fixed_layout
from wire.fixed_layout import FixedLayout, Int8ub, Int16sb, Int32sb, Int32ub, Int64sb, octets
from wire.frame import BINARY_HEAD, FRAME_HEAD
from wire.tests.message.layouts import KINDS, assert_declared_and_derived_agree, declared, values_of

SAMPLE = FixedLayout("sample", kind=Int8ub, small=Int16sb, host=octets(8), middle=Int32sb, large=Int64sb)


def test_several_layouts_are_one_row_of_values() -> None:
    one, two = (1, 2, b"12345678", 3, 4), (5, 6, b"abcdefgh", 7, 8)
    row = SAMPLE.repeated(2).unpack(SAMPLE.pack(*one) + SAMPLE.pack(*two))
    assert row == (*one, *two)
    assert row[3 :: len(SAMPLE.names)] == (3, 7)


def test_every_kind_is_declared_and_read_as_construct_does() -> None:
    every = FixedLayout("every", host=octets(3), **{f"field_{number}": kind for number, kind in enumerate(KINDS)})
    raw = declared(every).build({"host": b"xyz", **{f"field_{number}": number for number in range(len(KINDS))}})
    assert every.unpack_from(raw) == (b"xyz", *range(len(KINDS)))
    names = {code: name for name, code in vars(fixed_layout).items() if name.startswith("Int")}
    assert {code: getattr(construct, name) for code, name in names.items()} == KINDS


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
    assert SAMPLE.size == 23 == declared(SAMPLE).sizeof()
    assert (FRAME_HEAD.size, BINARY_HEAD.size) == (8, 17)


def test_one_field_is_patched_in_place() -> None:
    buffer = bytearray(SAMPLE.size + 2)
    SAMPLE.pack_into(buffer, 2, 1, 2, b"01234567", 3, 4)

    SAMPLE.packer("middle").pack_into(buffer, 2 + SAMPLE.offset("middle"), -9)

    assert SAMPLE.unpack_from(buffer, 2) == (1, 2, b"01234567", -9, 4)


def test_a_row_of_units_is_read_in_one_go() -> None:
    rows = [(1, 2, b"aaaaaaaa", 3, 4), (5, 6, b"bbbbbbbb", 7, 8)]

    assert list(SAMPLE.iter_unpack(b"".join(SAMPLE.pack(*row) for row in rows))) == rows


def test_what_is_no_kind_cannot_be_declared() -> None:
    with pytest.raises(struct.error):
        FixedLayout("odd", field="t")


def test_an_unknown_field_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        SAMPLE.offset("nothing")


def test_a_number_too_large_for_its_field_is_refused() -> None:
    with pytest.raises(struct.error):
        FRAME_HEAD.pack(2**32, 0)


def test_some_fields_are_picked_out_and_the_others_passed_over() -> None:
    layout = FixedLayout("four", a=Int32ub, b=Int64sb, c=octets(3), d=Int32ub)
    raw = layout.pack(1, -2, b"xyz", 4)

    assert layout.picker(("b", "d")).unpack_from(raw) == (-2, 4)
    assert layout.picker(("a",)).unpack(raw) == (1,)
    assert layout.picker(("a", "b")).size == layout.size
