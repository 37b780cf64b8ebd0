"""Units made column by column are those made one by one."""

from __future__ import annotations

import struct

import pytest

from gateway.store_tool.records.unit_columns import (
    LOG_OFFSET_AT,
    WORD_BYTES,
    as_words,
    build_units,
    first_of_row,
    numbers,
    queue_offsets,
    small_numbers,
)
from gateway.tests.store.small_store import HOST
from wire.disk.consume_queue import build_unit
from wire.message.record import OutgoingMessage, build_record
from wire.message.record_layout import HEADS

WIDTH = HEADS[0].size // WORD_BYTES
CODE_WORDS = 2


def _head(queue_offset: int, commit_log_offset: int = 0) -> bytes:
    record = build_record(OutgoingMessage("T", 3, 0, 0, 1, HOST, HOST, 0, 0, b"", b""), 0, 0, -2)
    places = struct.pack(">qq", queue_offset, commit_log_offset)
    at = HEADS[0].offset("queue_offset")
    return record[:at] + places + record[at + len(places) : HEADS[0].size]


ROWS = [_head(2**33 + number, 2**40 + 100 * number) for number in range(5)]


def test_units_with_one_code() -> None:
    code = struct.pack(">q", -7)
    wanted = [build_unit(2**40 + 100 * number, 100, -7) for number in range(5)]
    assert build_units(as_words(ROWS), WIDTH, 100, code) == b"".join(wanted)


def test_units_with_a_code_behind_each_head() -> None:
    rows = [head + struct.pack(">q", -number) for number, head in enumerate(ROWS)]
    wanted = [build_unit(2**40 + 100 * number, 100, -number) for number in range(5)]
    assert build_units(as_words(rows), WIDTH + CODE_WORDS, 100, None) == b"".join(wanted)


def test_numbers_are_those_of_the_records() -> None:
    words = as_words(ROWS)
    assert numbers(words, WIDTH, LOG_OFFSET_AT).tolist() == [2**40 + 100 * number for number in range(5)]
    assert queue_offsets(words, WIDTH).tolist() == [2**33 + number for number in range(5)]
    assert numbers(words, WIDTH, HEADS[0].offset("stored_at_ms") // WORD_BYTES).tolist() == [-2] * 5
    assert small_numbers(words, WIDTH, HEADS[0].offset("queue_id") // WORD_BYTES).tolist() == [3] * 5


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        (ROWS, 2**33),
        ([*ROWS[:2], *ROWS[3:]], None),
        ([ROWS[0], ROWS[0]], None),
        (ROWS[::-1], None),
        ([_head(-1), _head(0, 100)], None),
        ([_head(2**32 - 1), _head(2**32)], 2**32 - 1),
    ],
)
def test_a_row_of_a_queue_is_dense(rows: list[bytes], first: int | None) -> None:
    assert first_of_row(as_words(rows), WIDTH) == first


def test_a_row_is_dense_whatever_is_behind_the_heads() -> None:
    assert first_of_row(as_words([head + bytes(8) for head in ROWS]), WIDTH + CODE_WORDS) == 2**33
