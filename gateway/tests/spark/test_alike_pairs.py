"""Property strings that are alike are read as the reader of one message reads them, and others are left to it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.spark.alike_pairs import AlikePairs, alike_pairs
from gateway.spark.property_pairs import map_column
from gateway.spark.schema import TEXTS
from wire.message.properties import parse_properties


def cut(raws: list[bytes]) -> AlikePairs | None:
    bounds = np.cumsum([0, *map(len, raws)])
    return alike_pairs(pa.py_buffer(b"".join(raws)), bounds)


def text(numbers: list[int]) -> bytes:
    return b"".join(b"%s\x01%06d\x02" % (name, number) for name, number in zip((b"KEYS", b"A", b"ID"), numbers))  # noqa: B905


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 3).flatmap(lambda count: st.lists(st.lists(st.integers(0, 999_999), min_size=count, max_size=count)))
)
def test_strings_that_differ_in_numbers_are_a_table(rows: list[list[int]]) -> None:
    raws = [text(row) for row in rows]
    pairs = cut(raws)
    assert (pairs is None) == (not rows)
    if pairs is not None:
        column = map_column(pairs, TEXTS)
        column.validate(full=True)
        assert [dict(row) for row in column.to_pylist()] == [parse_properties(raw) for raw in raws]
        assert pairs.column("KEYS").to_pylist() == [parse_properties(raw)["KEYS"] for raw in raws]
        assert pairs.column("nothing").to_pylist() == [None] * len(raws)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(min_size=7, max_size=7),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from(b"\x00\x01\x02\x7f\x80\xffAB=")), max_size=3),
)
@example(b"A\x01b\x02B\x01", [])
@example(b"A\x01b\x02B\x01c", [(6, 2)])
@example(b"A\x01b\x02A\x01c", [(4, ord("B"))])
def test_what_is_taken_is_read_as_the_reader_of_one_message_does(raw: bytes, changes: list[tuple[int, int]]) -> None:
    other = bytearray(raw)
    for place, byte in changes:
        other[place] = byte
    raws = [raw, bytes(other)]
    pairs = cut(raws)
    if pairs is not None:
        assert [dict(row) for row in map_column(pairs, TEXTS).to_pylist()] == [parse_properties(each) for each in raws]


@pytest.mark.parametrize(
    "other", [b"A\x01xy\x02", b"B\x01x\x02", b"A\x01\x02\x02", b"A\x01\x01\x02", b"A\x01\xff\x02", b"A\x02x\x02"]
)
def test_strings_that_are_not_alike_are_left_to_the_careful_reader(other: bytes) -> None:
    assert cut([b"A\x01x\x02", other]) is None
