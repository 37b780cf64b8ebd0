"""Units made column by column are those made one by one."""

from __future__ import annotations

import struct

import pytest

from gateway.store_tool.unit_columns import build_units, first_of_row, log_offsets_are
from wire.disk.consume_queue import build_unit


def _place(queue_offset: int, commit_log_offset: int) -> bytes:
    return struct.pack(">qq", queue_offset, commit_log_offset)


PLACES = [_place(2**33 + number, 2**40 + 100 * number) for number in range(5)]


def test_units_with_one_code() -> None:
    code = struct.pack(">q", -7)
    wanted = [build_unit(2**40 + 100 * number, 100, -7) for number in range(5)]
    assert build_units(PLACES, 100, code) == b"".join(wanted)


def test_units_with_a_code_behind_each_place() -> None:
    rows = [place + struct.pack(">q", -number) for number, place in enumerate(PLACES)]
    wanted = [build_unit(2**40 + 100 * number, 100, -number) for number in range(5)]
    assert build_units(rows, 100, None) == b"".join(wanted)


def test_log_offsets_are_compared_in_their_order() -> None:
    assert log_offsets_are(PLACES, range(2**40, 2**40 + 500, 100))
    assert not log_offsets_are(PLACES[::-1], range(2**40, 2**40 + 500, 100))
    assert not log_offsets_are(PLACES, range(2**40, 2**40 + 505, 101))


@pytest.mark.parametrize(
    ("places", "first"),
    [
        (PLACES, 2**33),
        ([*PLACES[:2], *PLACES[3:]], None),
        ([PLACES[0], PLACES[0]], None),
        ([_place(-1, 0), _place(0, 100)], None),
        ([place + bytes(8) for place in PLACES], 2**33),
    ],
)
def test_a_row_of_a_queue_is_dense(places: list[bytes], first: int | None) -> None:
    assert first_of_row(places) == first
