"""Properties that are read by their ending are those that are read whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.requests.sending import stored_properties
from gateway.broker.requests.sending.stored_properties import HALF_MARK, MAX_ENDING_CHARACTERS, PlainProperties
from wire.message.properties import parse_properties

ADDED = {"MSG_REGION": "DefaultRegion", "CLUSTER": "c"}
SPECIAL = frozenset({"DELAY", *ADDED})
ENDING = "WAIT\x01true\x02TAGS\x01a\x02"
PARTS = st.sampled_from(["UNIQ_KEY", "WAIT", "DELAY", "CLUSTER", "k", "true", "\x01", "\x02", ""])


def _properties() -> PlainProperties:
    return PlainProperties(ADDED, SPECIAL)


def _text(key: str, ending: str = ENDING) -> str:
    return f"UNIQ_KEY\x01{key}\x02{ending}"


def test_an_ending_is_known_after_two_messages_that_have_it() -> None:
    properties = _properties()
    assert properties.of(_text("A")) is None
    found = properties.of(_text("B"))
    assert found is not None
    assert list(found.items()) == [("UNIQ_KEY", "B"), ("WAIT", "true"), ("TAGS", "a"), *ADDED.items()]
    found["TAGS"] = "mine"
    assert properties.of(_text("C")) == {"UNIQ_KEY": "C", "WAIT": "true", "TAGS": "a", **ADDED}


def test_nothing_is_known_where_nothing_is_learned() -> None:
    properties = PlainProperties(ADDED, SPECIAL, learns=False)
    assert [properties.of(_text(key)) for key in "ABCD"] == [None] * 4
    assert properties.of_key("E", ENDING) is None


def test_endings_that_are_never_the_same_are_not_remembered() -> None:
    properties = _properties()
    for number in range(1000):
        assert properties.of(_text("A", f"KEYS\x01{number}\x02")) is None
    assert len(properties._known) == 0


def test_no_more_endings_are_remembered_than_the_limit_says() -> None:
    properties = _properties()
    for number in range(2 * stored_properties.MAX_KNOWN):
        for _ in range(2):
            found = properties.of(_text("A", f"KEYS\x01{number}\x02"))
        assert found == {"UNIQ_KEY": "A", "KEYS": str(number), **ADDED}
        assert len(properties._known) <= stored_properties.MAX_KNOWN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "UNIQ_KEY\x01",
        "UNIQ_KEY\x01A",
        "UNIQ_KEY\x01\x02WAIT\x01true\x02",
        "WAIT\x01true\x02UNIQ_KEY\x01A\x02",
        _text("A", "WAIT\x01true"),
        _text("A", "DELAY\x013\x02"),
        _text("A", "CLUSTER\x01other\x02"),
        _text("A", "UNIQ_KEY\x01B\x02"),
        _text("A", "x\x01" + "y" * MAX_ENDING_CHARACTERS + "\x02"),
    ],
)
def test_all_others_have_to_be_looked_at(text: str) -> None:
    properties = _properties()
    assert [properties.of(text) for _ in range(3)] == [None] * 3


def test_half_messages_have_their_mark_before_the_key_and_an_ending_that_is_taken() -> None:
    properties = PlainProperties(ADDED, SPECIAL, mark=HALF_MARK, takes=lambda found: "PGROUP" in found)
    for key in "AB":
        found = properties.of(f"{HALF_MARK}UNIQ_KEY\x01{key}\x02PGROUP\x01g\x02")
        assert properties.of(f"{HALF_MARK}UNIQ_KEY\x01{key}\x02WAIT\x01true\x02") is None
    assert found is None  # the endings take turns: none of them is known yet
    for key in "CD":
        found = properties.of(f"{HALF_MARK}UNIQ_KEY\x01{key}\x02PGROUP\x01g\x02")
    assert found is not None
    assert list(found.items()) == [("TRAN_MSG", "true"), ("UNIQ_KEY", "D"), ("PGROUP", "g"), *ADDED.items()]
    without = [properties.of(f"{HALF_MARK}UNIQ_KEY\x01{key}\x02WAIT\x01true\x02") for key in "EFG"]
    assert without == [None] * 3
    assert properties.of("UNIQ_KEY\x01H\x02PGROUP\x01g\x02") is None


@given(st.lists(PARTS, max_size=9).map("".join), st.booleans())
def test_what_is_found_is_what_reading_the_whole_finds(ending: str, with_key: bool) -> None:
    text = _text("A", ending) if with_key else ending
    properties = _properties()
    properties.of(text)
    found = properties.of(text)
    if found is not None:
        assert text.endswith("\x02")
        assert list(found.items()) == list({**parse_properties(text), **ADDED}.items())
        assert SPECIAL.isdisjoint(parse_properties(text))
