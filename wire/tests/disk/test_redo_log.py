from __future__ import annotations

import pytest

from wire.disk.redo_log import GAP, PREPARED, UNIT_BYTES, build_prepared, build_settled, is_gap, parse_units
from wire.errors import LayoutError


def test_a_prepared_unit_has_the_tags_code_minus_one() -> None:
    assert build_prepared(1234, 115) == bytes.fromhex("00000000000004d2 00000073 ffffffffffffffff")
    assert parse_units(build_prepared(1234, 115)) == [(1234, 115, PREPARED)]


def test_a_settled_unit_names_its_half_message() -> None:
    assert build_settled(5000, 200, 1234) == bytes.fromhex("0000000000001388 000000c8 00000000000004d2")


def test_a_gap_keeps_the_place_of_a_half_message() -> None:
    ((place, size, tags_code),) = parse_units(GAP)
    assert is_gap(place, size)
    assert tags_code == PREPARED
    assert not is_gap(0, 115)


def test_half_a_unit_is_refused() -> None:
    with pytest.raises(LayoutError):
        parse_units(bytes(UNIT_BYTES + 1))
