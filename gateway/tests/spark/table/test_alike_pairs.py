"""Property strings that are alike are read as the reader of one message reads them, and others are left to it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.spark.table.alike_pairs import AlikePairs, NamedAlikePairs, alike_pairs, named_alike_pairs
from gateway.spark.table.property_pairs import map_column
from gateway.spark.table.schema import TEXTS
from wire.message.properties import parse_properties


def cut(raws: list[bytes]) -> AlikePairs | None:
    """Return the strings as they lie in records: with other bytes before and after each."""
    table = np.frombuffer(b"".join(b"\x01" + raw + b"\xff" for raw in raws), np.uint8)
    return alike_pairs(table.reshape(len(raws), -1)[:, 1:-1])


def cut_any(raws: list[bytes]) -> NamedAlikePairs | None:
    data = pa.py_buffer(b"\xff\x02" + b"".join(raws) + b"\x01")
    return named_alike_pairs(data, np.cumsum([2, *map(len, raws)]))


def check(pairs: AlikePairs | NamedAlikePairs, raws: list[bytes]) -> None:
    column = map_column(pairs, TEXTS)
    column.validate(full=True)
    expected = [parse_properties(raw) for raw in raws]
    assert [dict(row) for row in column.to_pylist()] == expected
    for name in (*expected[0], "nothing"):
        values = pairs.column(name)
        values.validate(full=True)
        assert values.to_pylist() == [row.get(name) for row in expected]


def text(numbers: list[int]) -> bytes:
    return b"".join(b"%s\x01%06d\x02" % (name, number) for name, number in zip((b"KEYS", b"A", b"ID"), numbers))  # noqa: B905


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda count: st.lists(st.lists(st.integers(0, 999_999), min_size=count, max_size=count), min_size=1)
    )
)
def test_strings_that_differ_in_numbers_are_a_table(rows: list[list[int]]) -> None:
    raws = [text(row) for row in rows]
    for pairs in (cut(raws), cut_any(raws)):
        assert pairs is not None
        check(pairs, raws)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.text("ab=\x7f", min_size=1, max_size=5), min_size=2, max_size=2), min_size=1, max_size=5))
def test_strings_with_the_same_names_are_cut_at_once(rows: list[list[str]]) -> None:
    raws = [f"KEYS\x01{first}\x02T\x01{second}\x02".encode() for first, second in rows]
    pairs = cut_any(raws)
    assert pairs is not None
    check(pairs, raws)


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
    for pairs in (cut(raws), cut_any(raws)):
        if pairs is not None:
            check(pairs, raws)


@pytest.mark.parametrize("byte", b"\x00\x01\x02\x03\x7f\x80\xff")
def test_a_byte_in_a_long_string_is_taken_when_it_belongs_to_a_plain_value(byte: int) -> None:
    raw = b"KEYS\x0102 or 345678 or so\x02ID\x01x\x02"
    for place in range(len(raw)):
        other = bytearray(raw)
        other[place] = byte
        raws = [raw, bytes(other), raw]
        pairs = cut(raws)
        assert (pairs is not None) == (other == raw or (chr(raw[place]) in " 02345678orsx" and 3 <= byte < 128))
        if pairs is not None:
            check(pairs, raws)


@pytest.mark.parametrize(
    "other", [b"A\x01xy\x02", b"B\x01x\x02", b"A\x01\x02\x02", b"A\x01\x01\x02", b"A\x01\xff\x02", b"A\x02x\x02"]
)
def test_strings_that_are_not_alike_are_left_to_the_careful_reader(other: bytes) -> None:
    raws = [b"A\x01x\x02", other]
    assert len({*map(len, raws)}) > 1 or cut(raws) is None
    assert (cut_any(raws) is None) == (other != b"A\x01xy\x02")


@pytest.mark.parametrize(
    "raws",
    [
        [],
        [b""],
        [b"", b"A\x01x\x02"],
        [b"A\x01x\x02", b"", b"A\x01x\x02A\x01y\x02"],
        [b"A\x01x\x02", b"A\x01x"],
        [b"A\x01x\x02B\x01y\x02", b"B\x01y\x02A\x01x\x02"],
        [b"A\x01x\x02", b"A\x01x\x00\x02"],
    ],
)
def test_strings_of_any_length_that_are_not_alike_are_left_to_the_careful_reader(raws: list[bytes]) -> None:
    assert cut_any(raws) is None
