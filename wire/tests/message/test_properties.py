from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.message.properties import (
    PropertyName,
    append_properties,
    build_properties,
    parse_properties,
)
from wire.tests.message.strategies import QUICK, property_maps


def test_every_pair_is_ended() -> None:
    assert build_properties({"TAGS": "TagA", "KEYS": "k1 k2"}) == b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02"
    assert build_properties({}) == b""


@QUICK
@given(property_maps)
def test_properties_come_back_in_their_order(properties: dict[str, str]) -> None:
    raw = build_properties(properties)
    assert list(parse_properties(raw).items()) == list(properties.items())
    assert parse_properties(raw.decode()) == properties
    assert parse_properties(memoryview(raw)) == properties
    assert parse_properties(raw.removesuffix(b"\x02")) == properties, "4.9.8 leaves the last mark out"


@pytest.mark.parametrize(
    ("raw", "properties"),
    [
        (b"", {}),
        (b"\x02\x02", {}),
        (b"a\x01\x02b\x011\x02", {"b": "1"}),  # an empty value
        (b"\x01abc\x02b\x011\x02", {"b": "1"}),  # an empty name
        (b"name\x02b\x011", {"b": "1"}),  # no value
        (b"a\x011\x012\x02", {"a": "1\x012"}),  # only the first mark splits
        (b"a\x011\x02a\x012\x02", {"a": "2"}),  # repeated
        (b"\xff\x011\x02", {"\ufffd": "1"}),
        ("é\x01漢😀".encode(), {"é": "漢😀"}),
    ],
)
def test_the_reader_drops_what_is_no_pair(raw: bytes, properties: dict[str, str]) -> None:
    assert parse_properties(raw) == properties


@QUICK
@given(st.binary(max_size=200) | st.lists(st.sampled_from([b"\x01", b"\x02", b"a", b"\xff"])).map(b"".join))
def test_no_bytes_make_the_reader_fail(raw: bytes) -> None:
    properties = parse_properties(raw)
    assert all(name and value for name, value in properties.items())


def test_pairs_that_no_reader_would_see_are_not_written() -> None:
    assert build_properties({"": "1", "a": "", "b": "2"}) == b"b\x012\x02"


def test_an_unpaired_surrogate_becomes_a_question_mark() -> None:
    assert build_properties({"a": "x\ud800"}) == b"a\x01x?\x02"


@pytest.mark.parametrize(
    ("raw", "appended"),
    [
        (b"", b"X\x01y\x02"),
        (b"a\x011", b"a\x011\x02X\x01y\x02"),
        (b"a\x011\x02", b"a\x011\x02X\x01y\x02"),
    ],
)
def test_appending_works_on_both_kinds_of_ends(raw: bytes, appended: bytes) -> None:
    assert append_properties(raw, [("X", "y")]) == appended
    assert append_properties(raw, {"X": "y"}) == appended
    assert append_properties(raw, [("", "y"), ("X", "")]) == raw


@QUICK
@given(property_maps, property_maps, st.booleans())
def test_appended_properties_are_read_with_the_others(first: dict[str, str], more: dict[str, str], ended: bool) -> None:
    raw = build_properties(first)
    if not ended:
        raw = raw.removesuffix(b"\x02")
    assert parse_properties(append_properties(raw, more)) == {**first, **more}


def test_names_are_unique_and_upstreams() -> None:
    names = {name: value for name, value in vars(PropertyName).items() if name.isupper()}
    assert len(set(names.values())) == len(names)
    assert names["UNIQ_KEY"] == "UNIQ_KEY"
    assert names["TRANSACTION_ID"] == "__transactionId__"
