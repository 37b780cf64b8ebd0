"""Columns of values of one length."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gateway.spark.table import byte_tables
from gateway.spark.table.byte_tables import (
    bytes_column,
    hexadecimal,
    hexadecimal_words,
    is_one_row,
    is_visible_ascii,
    repeated,
    repeated_row,
    texts_column,
)

TABLE = np.frombuffer(b"abcdefghijkl", np.uint8).reshape(3, 4)


def test_rows_of_a_table_are_values_wherever_they_lie() -> None:
    assert bytes_column(TABLE).to_pylist() == [b"abcd", b"efgh", b"ijkl"]
    assert texts_column(TABLE[:, 1:3]).to_pylist() == ["bc", "fg", "jk"]
    for column in (bytes_column(TABLE), texts_column(TABLE[:, 1:3])):
        column.validate(full=True)


def test_bytes_are_written_in_hexadecimal() -> None:
    assert texts_column(hexadecimal(np.array([[0, 10], [255, 18]], np.uint8))).to_pylist() == ["000A", "FF12"]


def test_numbers_are_written_in_hexadecimal() -> None:
    numbers = [0, 0x0123_4567_89AB_CDEF, 2**63 - 1, 0xFFFF_FFFF, 1 << 32]
    for chosen in (numbers, numbers[1:2], [7, 8], [7 << 32, 8 << 32], []):
        texts = texts_column(hexadecimal_words(np.array(chosen, np.int64)).view(np.uint8).reshape(-1, 16))
        assert texts.to_pylist() == [f"{number:016X}" for number in chosen]


@pytest.mark.parametrize("size", range(20))
def test_rows_that_differ_in_any_byte_are_told(size: int) -> None:
    rows = np.zeros((3, size + 5), np.uint8)[:, 2 : size + 2]
    assert is_one_row(rows)
    for row in range(3):
        for place in range(size):
            rows[row, place] = 1
            assert not is_one_row(rows)
            rows[row, place] = 0


@pytest.mark.parametrize("most_kept", [0, 1 << 20])
def test_texts_are_repeated(most_kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_tables, "MOST_KEPT_BYTES", most_kept)
    assert repeated(("a", "üb"), 2).to_pylist() == ["a", "üb", "a", "üb"]
    assert repeated(("a",), 0).to_pylist() == []
    rows = repeated_row(b"ab", 2)
    rows[0, 0] = ord("x")
    assert (rows.tobytes(), repeated_row(b"ab", 2).tobytes()) == (b"xbab", b"abab")
    longer, shorter = repeated(("a",), 3), repeated(("a",), 2)  # both alive: what is freed may be taken again
    places = {texts.buffers()[2].address for texts in (longer, shorter)}
    assert (len(places) == 1) == (most_kept > 0)


@pytest.mark.parametrize(
    ("texts", "visible"),
    [
        (pa.array(["a", "", "~!"]), True),
        (pa.array([], pa.string()), True),
        (pa.array(["", ""]), True),
        (pa.array(["a b"]), False),
        (pa.array(["a\x7f"]), False),
        (pa.array(["ü"]), False),
        (pa.array(["a b", "c", "d e"]).slice(1, 1), True),
        (pa.array(["a", "c d"]).slice(1, 1), False),
    ],
)
def test_visible_ascii_is_told_from_other_text(texts: pa.Array, visible: bool) -> None:
    assert is_visible_ascii(texts) is visible
