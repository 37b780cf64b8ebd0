"""SQL92 filters say what Java's evaluation says, and fail with one kind of error only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.filters.java_numbers import EvaluationError
from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.sql92 import ExpressionError, FilterCache, Sql92Filter, compile_filter, sql92_filter
from gateway.delivery.filters.sql92_closures import closure
from gateway.delivery.filters.sql92_grammar import parse_expression
from gateway.delivery.filters.sql92_tree import Part, names, requirements
from gateway.delivery.filters.turns import READ_STEPS
from gateway.tests.delivery.filters import plain_evaluation
from gateway.tests.delivery.filters.expressions import expressions, properties, word_heaps
from wire.disk.consume_queue import build_unit
from wire.message.message_id import pack_host
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage, build_record

# Recorded from Apache RocketMQ's own classes; see "origin" in the file.
VALUES: Any = json.loads(Path(__file__).with_name("sql92_values.json").read_text())


def letter(expression: str, given_properties: dict[str, str]) -> str:
    return letter_of(parse_expression(expression), given_properties)


def letter_of(part: Part, given_properties: dict[str, str]) -> str:
    try:
        value = closure(part)(given_properties)
    except EvaluationError:
        return "X"
    assert value is None or isinstance(value, bool)
    return "N" if value is None else "T" if value else "F"


@pytest.mark.parametrize("expression", VALUES["values"])
def test_an_expression_has_the_values_it_has_in_java(expression: str) -> None:
    found = "".join(letter(expression, each) for each in VALUES["properties"])
    assert found == VALUES["values"][expression]


@pytest.mark.parametrize("expression", VALUES["values"])
def test_only_true_matches(expression: str) -> None:
    matches = sql92_filter(expression).matches
    found = [matches(each) for each in VALUES["properties"]]
    assert found == [each == "T" for each in VALUES["values"][expression]]


@pytest.mark.parametrize("expression", VALUES["refused"])
def test_what_java_refuses_is_refused_with_its_sentence(expression: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        sql92_filter(expression)
    recorded = VALUES["refused"][expression]
    if not recorded.startswith(("Encountered", "Lexical error")):  # these name Java's tokens, see test_sql92_tokens
        assert str(caught.value) == recorded


def test_an_expression_is_compiled_once() -> None:
    assert sql92_filter("a = 5 AND b = 'once'") is sql92_filter("a = 5 AND b = 'once'")


@given(expressions, properties)
def test_the_closures_say_what_the_plain_evaluation_says(expression: str, given_properties: dict[str, str]) -> None:
    try:
        part = parse_expression(expression)
    except ExpressionError:
        return
    assert letter(expression, given_properties) == plain_evaluation.letter(part, given_properties)


@given(word_heaps, properties)
def test_any_row_of_words_is_an_expression_or_an_error_of_one_kind(
    expression: str, given_properties: dict[str, str]
) -> None:
    try:
        matches = sql92_filter(expression).matches
    except ExpressionError:
        return
    assert matches(given_properties) in (True, False)


def chooses(expression: str, properties_text: bytes) -> bool:
    return choice(sql92_filter(expression), [properties_text]) == [0]


def fresh(expression: str) -> Sql92Filter:
    """Compile an expression anew: what has looked into no record remembers none."""
    outcome = compile_filter(expression)
    assert not isinstance(outcome, str), outcome
    return outcome


def choice(wanted: Sql92Filter, texts: list[bytes]) -> list[int]:
    host = pack_host("192.0.2.1", 10911)
    data, units = b"", b""
    for text in texts:
        message = OutgoingMessage("orders", 0, 0, 0, 1, host, host, 0, 0, b"a\x01\x02a\x015\x02", text)
        record = build_record(message, 0, 0, 1)
        units += build_unit(len(data), len(record), 0)
        data += record
    chosen, looked = wanted.choose_within(Work(READ_STEPS))(data, 0, units, 0)
    assert looked == len(texts)
    return chosen


_PIECES = st.sampled_from([b"a", b"ab", b"\x01", b"\x02", b"\x02a\x01", b"a\x01", b"1", b"2", b"\x02b\x01", b"\xff"])


@given(st.lists(st.lists(_PIECES, max_size=10).map(b"".join), max_size=8))
def test_a_record_is_judged_the_same_whatever_stood_before_it(texts: list[bytes]) -> None:
    for expression in ("a = '1'", "a IS NULL", "a <> '2'", "a = '1' AND b IS NULL", "a = '1' OR b = '1'"):
        together = choice(fresh(expression), texts)
        singly = []
        for number, text in enumerate(texts):
            singly += [number] * (choice(fresh(expression), [text]) == [0])
        assert together == singly


def test_an_ending_seen_before_decides_only_where_it_is_a_pair() -> None:
    matching = [b"b\x012\x02a\x011", b"a\x011", b"\x02a\x011"]
    others = [
        b"b\x01a\x011",
        b"a\x011\x02a\x012",
        b"b\x01\x03a\x011",
    ]  # the last: as the length and the text of "a" = 1
    texts = [text for pair in zip(matching, others, strict=True) for text in pair]
    for first in range(len(texts)):
        turned = texts[first:] + texts[:first]
        assert choice(fresh("a = '1'"), turned) == [n for n, text in enumerate(turned) if text in matching]
    assert choice(sql92_filter("a = '1'"), [b"a\x011", others[2]]) == [0]


@given(expressions, st.lists(properties, min_size=1, max_size=4))
def test_a_stored_record_is_judged_as_its_properties_are(expression: str, several: list[dict[str, str]]) -> None:
    try:
        matches = sql92_filter(expression).matches
    except ExpressionError:
        return
    texts = [build_properties(each) for each in several]
    for text in (*texts, texts[0][:-1], b"".join(texts), b"a\x01\x02\x01x\x02b\x011", b"a\x01\xff\xe2\x82\x02b\x015"):
        assert chooses(expression, text) == matches(parse_properties(text))


@given(expressions, expressions, expressions, properties)
def test_what_is_required_is_true_exactly_where_the_whole_is(
    one: str, other: str, third: str, given_properties: dict[str, str]
) -> None:
    try:
        part = parse_expression(f"({one}) AND (({other}) AND ({third}))")
    except ExpressionError:
        return
    required = requirements(part)
    assert all(letter_of(each, given_properties) == "T" for each in required) == (
        letter_of(part, given_properties) == "T"
    )
    assert len({names(each) for each in required}) == len(required)


def test_each_property_is_required_on_its_own() -> None:
    part = parse_expression("a > 5 AND (b = 'x' OR c = 'y') AND (a < 10 AND b IS NOT NULL) AND TRUE")
    assert [sorted(names(each)) for each in requirements(part)] == [[], ["a"], ["b"], ["b", "c"]]


def test_of_several_properties_with_one_name_the_last_counts() -> None:
    text = b"a\x011\x02b\x01a\x01x\x02a\x012\x02a\x01\x02xa\x013\x02"
    assert chooses("a = '2' AND ab IS NULL", text)
    assert not chooses("a = '1'", text)
    assert chooses("TRUE", text)
    assert not chooses("FALSE AND a = '2'", text)


# -- three-valued logic ---------------------------------------------------------------------------------------------

# NULL of a comparison with a missing property, and the constants.
TRUTH = {"T": "TRUE", "F": "FALSE", "N": "missing = 'x'"}


@pytest.mark.parametrize("left", TRUTH)
@pytest.mark.parametrize("right", TRUTH)
def test_and_or_and_not_of_null(left: str, right: str) -> None:
    one, other = TRUTH[left], TRUTH[right]
    both = "F" if "F" in left + right else "N" if "N" in left + right else "T"
    either = "T" if "T" in left + right else "N" if "N" in left + right else "F"
    inverted = {"T": "F", "F": "T", "N": "N"}
    assert letter(f"({one}) AND ({other})", {}) == both
    assert letter(f"({one}) OR ({other})", {}) == either
    assert letter(f"NOT ({one})", {}) == inverted[left]
    assert letter(f"({one}) AND ({other}) AND ({one})", {}) == both
    assert letter(f"({one}) OR ({other}) OR ({other})", {}) == either
    assert letter(f"NOT (({one}) AND ({other}))", {}) == inverted[both]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'x' = 5 AND FALSE", "X"),
        ("FALSE AND 'x' = 5", "F"),
        ("'x' = 5 OR TRUE", "X"),
        ("TRUE OR 'x' = 5", "T"),
        ("('x' = 5) CONTAINS 'a'", "X"),
        ("('x' = 5) CONTAINS ''", "F"),
        ("-('x' = 5) IS NULL", "X"),
        ("missing > -('x' = 5)", "N"),
        ("missing = -('x' = 5)", "X"),
    ],
)
def test_a_part_without_a_value_ends_the_evaluation_when_it_is_reached(expression: str, value: str) -> None:
    assert letter(expression, {}) == value


def test_what_was_compiled_is_found_again_until_others_need_its_place() -> None:
    cache = FilterCache(limit=3, characters=100)
    for name in "abc":
        cache.keep(name, f"refused {name}")
    assert cache.find("a") == "refused a"
    cache.keep("d", "refused d")
    assert [cache.find(name) for name in "abcd"] == ["refused a", None, "refused c", "refused d"]
    cache.keep("e" * 99, "refused e")
    assert [cache.find(name) for name in "acd"] == [None, None, "refused d"]
    cache.keep("f" * 101, "refused f")
    assert len(cache) == 0


def test_a_filter_of_several_conditions_needs_all_of_them() -> None:
    matches = fresh("a = 5 AND b = 6 AND c = 7").matches
    assert matches({"a": "5", "b": "6", "c": "7"})
    for name in "abc":
        assert not matches({"a": "5", "b": "6", "c": "7", name: "8"})
        assert not matches({"a": "5", "b": "6", "c": "7", name: "no number"})
