"""Columns of properties are what reading each record's properties gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.store_tool.records.property_columns import KEYS, PAIR_END, TAGS, UNIQUE, column, split_tails
from wire.message.properties import parse_properties

_PAIR = st.tuples(
    st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "MYTAGS", "TAGS2"]),
    st.text(st.characters(codec="ascii", exclude_characters="\x02"), max_size=4),
)
_ROWS = st.lists(st.lists(_PAIR, max_size=4), min_size=1, max_size=8)


def _properties(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()


@given(_ROWS)
def test_a_column_has_each_rows_value(rows: list[list[tuple[str, str]]]) -> None:
    raw = [_properties(pairs) for pairs in rows]
    for name in (TAGS, KEYS, UNIQUE):
        wanted = [parse_properties(row).get(name[:-1].decode(), "").encode() for row in raw]
        assert column([PAIR_END + row for row in raw], name) == wanted


def test_tails_are_cut_behind_the_topic() -> None:
    tails = [b"\x01a\x00\x02xy", b"\x02bc\x00\x00"]
    assert split_tails(tails) == ([b"\x01a", b"\x02bc"], [PAIR_END + b"xy", PAIR_END])


def test_a_tail_whose_parts_do_not_add_up_gives_nothing() -> None:
    for broken in (b"\x01a\x00\x03xy", b"\x01a\x00\x01xy", b"\x05a\x00\x02xy", b"\x80" + bytes(130), b""):
        assert split_tails([b"\x01a\x00\x02xy", broken]) == ([], [])
