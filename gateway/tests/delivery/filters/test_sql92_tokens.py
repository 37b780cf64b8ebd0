"""Tokens: kinds, what is skipped, and where errors are."""

from __future__ import annotations

import pytest

from gateway.delivery.filters.sql92_tokens import TokenKind, Tokens
from gateway.delivery.filters.sql92_tree import ExpressionError
from wire.tests.growth import processor_seconds


def all_of(text: str) -> list[tuple[str, str]]:
    tokens = Tokens(text)
    found = []
    while tokens.kind is not TokenKind.END:
        kind = tokens.kind.value
        found.append((kind, tokens.take()))
    return found


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \t\r\n\f", []),
        ("a_1 $x Not nOTe", [("word", "a_1"), ("word", "$x"), ("keyword", "NOT"), ("word", "nOTe")]),
        ("0123 5L 5l", [("decimal", "0"), ("decimal", "123"), ("decimal", "5L"), ("decimal", "5l")]),
        ("5. .5 5e3 00.5E-1", [("double", "5."), ("double", ".5"), ("double", "5e3"), ("double", "00.5E-1")]),
        ("'it''s' '' '\n--'", [("string", "it's"), ("string", ""), ("string", "\n--")]),
        ("<=<>=<", [("symbol", "<="), ("symbol", "<>"), ("symbol", "="), ("symbol", "<")]),
        ("a -- b\nc /* d * / ** */ e", [("word", "a"), ("word", "c"), ("word", "e")]),
        ("a -- b", [("word", "a"), ("symbol", "-"), ("symbol", "-"), ("word", "b")]),
        ("1e", [("decimal", "1"), ("word", "e")]),
    ],
)
def test_a_text_in_tokens(text: str, tokens: list[tuple[str, str]]) -> None:
    assert all_of(text) == tokens


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("#", "line 1, column 1", '"#" (35)'),
        ("a\n  != 5", "line 2, column 3", '"!" (33)'),
        ("a\r\n\r é", "line 3, column 2", '"é" (233)'),
        ("a = 'x", "line 1, column 5", "a string without its end"),
        ("a /* b", "line 1, column 3", '"/" (47)'),
    ],
)
def test_what_begins_no_token_is_an_error_with_its_place(text: str, place: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        all_of(text)
    assert str(caught.value).startswith(f"Lexical error at {place}.")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("abc", 'Encountered "abc" at line 1, column 1. Was expecting )'),
        ("\n is", 'Encountered "is" at line 2, column 2. Was expecting )'),
        ("", 'Encountered "<EOF>" at line 1, column 1. Was expecting )'),
    ],
)
def test_the_wrong_token_is_an_error_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Tokens(text).expect(")")
    assert str(caught.value) == sentence


def test_nothing_is_read_ahead_of_need() -> None:
    tokens = Tokens("a b #")
    assert tokens.take() == "a"
    with pytest.raises(ExpressionError):
        tokens.take()


def test_minus_signs_without_a_line_end_are_read_in_one_go() -> None:
    def read() -> None:
        tokens = Tokens("-" * 65_000)
        while tokens.take():
            pass

    assert processor_seconds(read) < 5, "0.05 s; a search for the line's end at each of them would take a minute"
