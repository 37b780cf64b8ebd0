"""Property strings by column agree with the reader of one message."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.spark.table.property_pairs import map_column, property_pairs, words_column
from gateway.spark.table.schema import TEXTS, WORDS
from wire.message.properties import parse_properties

USUAL = b"TAGS\x01a\x02UNIQ_KEY\x01ID\x02"
PIECES = st.sampled_from([b"\x01", b"\x02", b"A", b"TAGS", "ü".encode(), b"\xff", b" ", b"A\x01b\x02", b"A\x01c\x02"])


def maps(raws: list[bytes]) -> list[dict[str, str]]:
    pairs = property_pairs(pa.array(raws, pa.binary()))
    column = map_column(pairs, TEXTS)
    column.validate(full=True)
    rows = column.to_pylist()
    assert all(len(row) == len(dict(row)) for row in rows), "a map has each name once"
    return [dict(row) for row in rows]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=8).map(b"".join), max_size=6))
@example([b"\x01x\x02", USUAL])
@example([b"A\x01b", b"A\x01b"])
@example([b"A\x01b", b"", b"\x02", USUAL])
@example([b"A\x01b\x01c\x02", USUAL])
@example([b"A\x01b\x01", b"\x01\x02"])
@example([b"A\x01x\x02A\x01y\x02"])
def test_any_string_is_read_as_the_reader_of_one_message_reads_it(raws: list[bytes]) -> None:
    assert maps(raws) == [parse_properties(raw) for raw in raws]


def test_the_order_of_pairs_is_kept() -> None:
    pairs = property_pairs(pa.array([b"B\x011\x02A\x012\x02"], pa.binary()))
    assert map_column(pairs, TEXTS).to_pylist() == [[("B", "1"), ("A", "2")]]


def test_one_name_is_a_column_with_nulls_where_it_is_not() -> None:
    pairs = property_pairs(
        pa.array([b"A\x01x\x02TAGS\x01red\x02", b"", b"TAGS\x01blue\x02", b"A\x01y\x02"], pa.binary())
    )
    assert pairs.column("TAGS").to_pylist() == ["red", None, "blue", None]
    assert pairs.column("nothing").to_pylist() == [None] * 4
    assert property_pairs(pa.array([USUAL, USUAL], pa.binary())).column("UNIQ_KEY").to_pylist() == ["ID", "ID"]


def test_strings_that_share_a_longer_buffer_are_told_apart() -> None:
    part = pa.array([b"junk\x01", USUAL, b"K\x01v\x02", b"more\x02"], pa.binary()).slice(1, 2)
    assert [dict(row) for row in map_column(property_pairs(part), TEXTS).to_pylist()] == [
        {"TAGS": "a", "UNIQ_KEY": "ID"},
        {"K": "v"},
    ]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a b", None, "c"], [["a", "b"], [], ["c"]]),
        ([None, None], [[], []]),
        (["", " ", "  a   b  "], [[], [], ["a", "b"]]),
    ],
)
def test_keys_are_words(texts: list[str | None], words: list[list[str]]) -> None:
    column = words_column(pa.array(texts, pa.string()), WORDS)
    column.validate(full=True)
    assert column.to_pylist() == words
