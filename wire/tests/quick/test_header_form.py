"""Headers that are recognised by their form are those that a parser reads the same in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.quick.header_form import MAX_WORD, HeaderForm, Spot

SAMPLE = rb'{"fields":{"e":"12","i":"KEY\u00010A0B\u0002WAIT"},"opaque":345,"version":513}'
SPOTS = (Spot(b'"opaque":', 9), Spot(b'"e":"', 18), Spot(rb"KEY\u0001", 0))
NUMBERS = st.integers(0, 10**9 - 1)
WORDS = st.text("0123456789abcxyzABCXYZ", min_size=1, max_size=40)


def _header(number: int | str, word: str, opaque: int | str) -> bytes:
    return b'{"fields":{"e":"%s","i":"KEY\\u0001%s\\u0002WAIT"},"opaque":%s,"version":513}' % (
        str(number).encode(),
        word.encode(),
        str(opaque).encode(),
    )


@given(NUMBERS, WORDS, NUMBERS)
def test_what_the_spots_hold_is_found(number: int, word: str, opaque: int) -> None:
    form = HeaderForm(SAMPLE, SPOTS)
    header = _header(number, word, opaque)
    assert form.matches(header)
    found = list(form.found)
    assert (found[0], found[2], header[found[4] : found[5]]) == (opaque, number, word.encode())
    assert header == form.filled([str(opaque).encode(), str(number).encode(), word.encode()])


@pytest.mark.parametrize(
    "header",
    [
        _header("", "A", 1),
        _header("007", "A", 1),
        _header("-7", "A", 1),
        _header("1" * 19, "A", 1),
        _header("7x", "A", 1),
        _header(7, "", 1),
        _header(7, "A-1", 1),
        _header(7, r"A\u0041", 1),
        _header(7, "ä", 1),
        _header(7, "A" * (MAX_WORD + 1), 1),
        _header(7, "A", 10**9),
        _header(7, "A", "1.0"),
        _header(7, "A", 1)[:-1],
        _header(7, "A", 1)[:20],
        _header(7, "A", 1) + b" ",
        b"",
    ],
)
def test_what_else_a_spot_may_hold_is_of_another_form(header: bytes) -> None:
    assert not HeaderForm(SAMPLE, SPOTS).matches(header)


@settings(max_examples=500)
@given(st.data())
def test_a_header_with_other_bytes_is_of_the_form_only_if_it_reads_so(data: st.DataObject) -> None:
    header = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(header) - 1))
        some = data.draw(st.binary(max_size=2) | st.sampled_from([b'"', b"0", b"7", b"A", b"\\", b","]))
        header[place : place + data.draw(st.integers(0, 2))] = some
    form = HeaderForm(SAMPLE, SPOTS)
    if form.matches(bytes(header)):
        found = list(form.found)
        word = header[found[4] : found[5]].decode()
        assert json.loads(header) == {
            "fields": {"e": str(found[2]), "i": f"KEY\x01{word}\x02WAIT"},
            "opaque": found[0],
            "version": 513,
        }


@pytest.mark.parametrize(
    ("sample", "spot"),
    [
        (b'{"e":"1"}', Spot(b'"f":"', 9)),
        (b'{"e":"1","e":"1"}', Spot(b'"e":"', 9)),
        (b'{"e":""}', Spot(b'"e":"', 9)),
        (b'{"e":"01"}', Spot(b'"e":"', 9)),
        (b'{"e":"12"}', Spot(b'"e":"', 1)),
        (b'{"e":"-"}', Spot(b'"e":"', 0)),
    ],
)
def test_without_one_value_behind_each_mark_there_is_no_form(sample: bytes, spot: Spot) -> None:
    with pytest.raises(ValueError, match=r"value|once"):
        HeaderForm(sample, [spot])
