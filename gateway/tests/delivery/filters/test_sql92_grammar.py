"""The grammar: what binds how tightly, and the limits."""

from __future__ import annotations

import pytest

from gateway.delivery.filters.sql92_grammar import MAX_EXPRESSION_CHARACTERS, MAX_OPERANDS, parse_expression
from gateway.delivery.filters.sql92_tree import MAX_DEPTH, ExpressionError


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1 OR b = 2 AND c = 3", "((a == 1) || ((b == 2) && (c == 3)))"),
        ("(a = 1 OR b = 2) AND c = 3", "(((a == 1) || (b == 2)) && (c == 3))"),
        ("a = 1 OR b = 2 OR c = 3", "((a == 1) || (b == 2) || (c == 3))"),
        ("NOT a = 5", "((NOT a) == 5)"),
        ("a = b > 5", "(a == (b > 5))"),
        ("a = b = c", "((a == b) == c)"),
        ("a <> 5", "(NOT (a == 5))"),
        ("- -a = +5", "((- (- a)) == 5)"),
        ("a BETWEEN 1 AND 2 AND b", "(((a >= 1) && (a <= 2)) && b)"),
        ("a NOT BETWEEN 1 AND 2", "((a < 1) || (a > 2))"),
        ("a IS NOT NULL", "(NOT (a == NULL))"),
        ("a NOT IN ('y', 'x')", "a NOT IN ( x, y )"),
        ("a NOT CONTAINS 'x' OR TRUE", "((NOT CONTAINS a) || TRUE)"),
        ("a = 'it''s'", "(a == 'it''s')"),
        ("5000000000 = 5L", "(5000000000 == 5)"),
    ],
)
def test_how_tightly_operators_bind(text: str, tree: str) -> None:
    assert str(parse_expression(text)) == tree


def refusal(text: str) -> str:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    return str(caught.value)


def test_an_expression_may_have_16_k_characters() -> None:
    identifiers = ", ".join(f"'{number:012}'" for number in range(1_000))
    text = f"a IN ({identifiers})"
    text += " " * (MAX_EXPRESSION_CHARACTERS - len(text))
    assert parse_expression(text).depth == 2
    assert refusal(text + " ") == "the expression has 16385 characters, the limit is 16384"


@pytest.mark.parametrize(
    ("unit", "joint", "operands"),
    [("a=1", " OR ", 2), ("a", " OR ", 1), ("a BETWEEN 1 AND 2", " AND ", 3), ("a > - 1", " OR ", 3)],
)
def test_an_expression_may_have_2048_operands(unit: str, joint: str, operands: int) -> None:
    text = joint.join([unit] * (MAX_OPERANDS // operands))
    if len(text) <= MAX_EXPRESSION_CHARACTERS:
        assert parse_expression(text).depth >= 2
        assert "more than 2048 operands" in refusal(text + joint + unit)
    else:
        assert refusal(text).startswith(f"the expression has {len(text)} characters")


def test_an_expression_may_have_256_searches_long_ones_counted_as_several() -> None:
    for unit, count in (("a CONTAINS 'x'", 256), (f"a ENDSWITH '{'x' * 16}'", 128), (f"a STARTSWITH '{'x' * 40}'", 85)):
        text = " OR ".join([unit] * count)
        assert parse_expression(text).depth == 3
        assert "more than 256 searches" in refusal(f"{text} OR {unit}")


def test_signs_and_brackets_are_operands() -> None:
    assert "more than 2048 operands" in refusal(" OR ".join(["- - - - a IS NULL"] * 410))
    assert "more than 2048 operands" in refusal(" OR ".join(["(((a)))"] * 513))


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1),
        "NOT " * MAX_DEPTH + "a",
        "-" * 1_000 + "a = 5",
        "a" + " IS NULL" * MAX_DEPTH,
        "a" + " = b" * 1_000,
        "(a OR " * 1_000,
        "a = (" * 500,
        "a OR b AND a = " + "(a OR b AND a = " * 400,
    ],
)
def test_nesting_beyond_the_limit_is_refused_whatever_nests(text: str) -> None:
    assert refusal(text) == f"the expression is nested deeper than {MAX_DEPTH} levels"


def test_nesting_within_the_limit_is_taken_whatever_nests() -> None:
    assert parse_expression("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH).depth == 2
    deepest = parse_expression("a OR b AND a = (" * 40 + "a" + ")" * 40)
    assert deepest.depth <= MAX_DEPTH
    assert str(deepest)
    assert parse_expression("NOT " * (MAX_DEPTH - 2) + "a").depth == MAX_DEPTH


def test_long_parts_are_cut_in_errors() -> None:
    assert len(refusal("'" + "x" * 60_000 + "'")) < 300
    assert len(refusal("a = 5 AND IN " + "x" * 60_000)) < 300
    assert len(refusal("9" * 60_000 + " = a")) < 300
