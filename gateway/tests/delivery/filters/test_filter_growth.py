"""The time of every filter function grows no faster than its input, because peers choose the texts of properties."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from gateway.delivery.filters.java_numbers import EvaluationError, java_boolean, java_double, java_int, java_long
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.sql92 import compile_filter
from gateway.delivery.filters.sql92_tokens import Tokens
from gateway.delivery.filters.sql92_tree import ExpressionError
from gateway.delivery.filters.turns import READ_STEPS
from gateway.errors import RequestRefused
from gateway.tests.delivery.filters.test_message_filter import record
from gateway.tests.growth import assert_grows_in_step
from wire.disk.consume_queue import build_unit

PROPERTY_CHARACTERS = 16_000
"""Half of what the properties of a message may have."""

MakesText = Callable[[int], str]
"""Text of a size."""
NUMBER_LIKE: dict[str, MakesText] = {
    "digits and a letter": lambda size: "1" * size + "x",
    "digits": lambda size: "1" * size,
    "a point between digits and a letter": lambda size: "1" * (size // 2) + "." + "1" * (size // 2) + "x",
    "a point before digits and a letter": lambda size: "." + "1" * size + "x",
    "an exponent of digits and a letter": lambda size: "1e" + "1" * size + "x",
    "an exponent of digits": lambda size: "1e" + "9" * size,
    "a small exponent of digits": lambda size: "1e-" + "9" * size,
    "hexadecimal digits": lambda size: "0x" + "f" * size,
    "hexadecimal digits and an exponent": lambda size: "0x" + "f" * size + "p" + "9" * 9,
    "hexadecimal digits with a point, and a letter": lambda size: "0x" + "f" * (size // 2) + "." + "f" * (size // 2),
    "zeros": lambda size: "0" * size,
    "zeros behind a point": lambda size: "0." + "0" * size + "1d",
    "zeros of another script": lambda size: "\u0660" * size,
    "digits of another script": lambda size: "\u0661" * size,
    "digits beyond 16 bits": lambda size: "\U0001d7d8" * size,
    "points": lambda size: "." * size,
    "signs": lambda size: "+" * size,
    "space and a letter": lambda size: " " * size + "x" + " " * size,
}


@pytest.mark.parametrize("name", NUMBER_LIKE)
@pytest.mark.parametrize("reads", [java_int, java_long, java_double, java_boolean])
def test_a_property_is_read_as_a_number(reads: Callable[[str], object], name: str) -> None:
    def run(size: int) -> Callable[[], object]:
        text = NUMBER_LIKE[name](size)

        def read() -> None:
            for _ in range(10):
                with suppress(EvaluationError):
                    reads(text)

        return read

    assert_grows_in_step(run, PROPERTY_CHARACTERS)


EXPRESSION_CHARACTERS = 8_000
"""Half of what an expression may have."""


def joined(unit: str, joint: str) -> MakesText:
    """Return what makes expressions of a size; {} in a unit is its number."""

    def make(size: int) -> str:
        count = size // (len(unit.format(1000)) + len(joint))
        return joint.join(unit.format(1000 + number) for number in range(count))

    return make


EXPRESSIONS: dict[str, MakesText] = {
    "comparisons": joined("a = {}", " OR "),
    "comparisons of many properties": joined("a{} = 1", " AND "),
    "ranges": joined("a BETWEEN {} AND 9999.5", " AND "),
    "truths": joined("(a)", " AND "),
    "searches": joined("a CONTAINS 'b{}' OR a = '123456789 123456789'", " OR "),
    "lists": joined("a IN ('{}')", " OR "),
    "one list": lambda size: "a IN (" + joined("'{}'", ",")(size) + ")",
    "brackets": joined("(" * 40 + "a = 1" + ")" * 40, " OR "),
    "open brackets": lambda size: "(" * size,
    "minus signs": joined("- " * 40 + "a IS NULL", " OR "),
    "lone minus signs": lambda size: "-" * size,
    "negations": joined("NOT " * 40 + "a", " OR "),
    "equalities": joined("a", " = "),
    "nulls": joined("a", " IS NULL "),
    "remarks": lambda size: "/**/" * (size // 4) + "a = 1",
    "an open remark": lambda size: "/*" + "*a" * (size // 2),
    "stars": lambda size: "/*" + "*" * size,
    "line remarks": lambda size: "--\n" * (size // 3) + "a = 1",
    "lines": lambda size: "\n" * size + "#",
    "spaces": lambda size: " " * size + "#",
    "a string": lambda size: "a = '" + "''" * (size // 2) + "'",
    "an open string": lambda size: "a = '" + "''" * (size // 2),
    "a word": lambda size: "a" * size + " = 1",
    "zeros": lambda size: "a > " + "0" * size,
    "digits": lambda size: "a > " + "1" * size,
    "digits and a point": lambda size: "a > " + "1" * size + ".",
    "digits behind a point": lambda size: "a > ." + "1" * size,
    "an exponent": lambda size: "a > 1e" + "1" * size,
    "an error at the end": lambda size: joined("a = {}", " OR ")(size) + " OR #",
}


@pytest.mark.parametrize(
    "name", sorted(EXPRESSIONS.keys() - {"zeros"})
)  # each is a token: no expression has two in a row
def test_an_expression_is_taken_apart(name: str) -> None:
    def run(size: int) -> Callable[[], object]:
        text = EXPRESSIONS[name](size)

        def read() -> None:
            with suppress(ExpressionError):
                tokens = Tokens(text)
                while tokens.take():
                    pass

        return read

    assert_grows_in_step(run, EXPRESSION_CHARACTERS)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_is_compiled(name: str) -> None:
    assert_grows_in_step(lambda size: lambda: compile_filter(EXPRESSIONS[name](size)), EXPRESSION_CHARACTERS // 2)


PROPERTIES: dict[str, Callable[[int], dict[str, str]]] = {
    "digits": lambda size: {"a": "1" * size, "b": "1"},
    "digits in two": lambda size: {"a": "1" * (size // 2), "b": "2" * (size // 2)},
    "letters": lambda size: {"a": "a" * size, "b": "b"},
    "many": lambda size: {f"a{number}": "1" for number in range(1_000, 1_000 + size // 8)},
}
EVALUATED = ("comparisons", "comparisons of many properties", "ranges", "truths", "searches", "lists", "minus signs")


@pytest.mark.parametrize("properties", PROPERTIES)
@pytest.mark.parametrize("name", EVALUATED)
def test_an_expression_is_evaluated(name: str, properties: str) -> None:
    def with_longer_properties(size: int) -> Callable[[], object]:
        return evaluating(EXPRESSIONS[name](EXPRESSION_CHARACTERS // 4), PROPERTIES[properties](size))

    def with_more_operands(size: int) -> Callable[[], object]:
        return evaluating(EXPRESSIONS[name](size), PROPERTIES[properties](PROPERTY_CHARACTERS // 4))

    assert_grows_in_step(with_longer_properties, PROPERTY_CHARACTERS)
    assert_grows_in_step(with_more_operands, EXPRESSION_CHARACTERS // 4)


def evaluating(expression: str, properties: dict[str, str]) -> Callable[[], object]:
    wanted = compile_filter(expression)
    assert not isinstance(wanted, str), wanted
    matches = wanted.matches
    return lambda: [matches(properties) for _ in range(3)]


@pytest.mark.parametrize("name", EVALUATED)
@pytest.mark.parametrize("length", [8, 1_000])
def test_records_are_looked_into(name: str, length: int) -> None:
    """The total is bounded: beyond the work of a read no further record is looked into."""
    wanted = compile_filter(EXPRESSIONS[name](EXPRESSION_CHARACTERS // 4))
    assert not isinstance(wanted, str), wanted

    def run(size: int) -> Callable[[], object]:
        records = [record({"a": f"{number:0{length}}"}) for number in range(size)]
        data = b"".join(records)
        units, at = bytearray(), 0
        for each in records:
            units += build_unit(at, len(each), 0)
            at += len(each)
        return lambda: wanted.choose_within(Work(READ_STEPS))(data, 0, bytes(units), 0)

    assert_grows_in_step(run, 200)


@pytest.mark.parametrize("joint", ["||", " || ", "|", "|| ||"])
def test_a_tag_expression_is_parsed(joint: str) -> None:
    def run(size: int) -> Callable[[], object]:
        text = joint.join(f"tag{number}" for number in range(size // (6 + len(joint))))

        def parse() -> None:
            with suppress(RequestRefused):
                posted_filter(text, "TAG")

        return parse

    assert_grows_in_step(run, 30_000)
