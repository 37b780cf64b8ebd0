"""Values as the text of ext fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.codes import RequestCode
from wire.headers.declare import build_text, parse_bool, parse_int


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_survives_its_text(value: int) -> None:
    assert parse_int(build_text(value), 64) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-1", -1), ("+5", 5), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))],
)
def test_an_integer_is_read_as_java_reads_it(text: str, value: int) -> None:
    assert parse_int(text, 32) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 ",
        " 1",
        "1_0",
        "0x10",
        "1.0",
        "1e3",
        "--1",
        "+",
        "²",
        "2147483648",
        "-2147483649",
        "9" * 5000,
    ],
)
def test_what_java_does_not_take_for_an_integer_is_none(text: str) -> None:
    assert parse_int(text, 32) is None


@given(st.text())
def test_any_text_is_an_integer_or_none(text: str) -> None:
    value = parse_int(text, 64)

    assert value is None or -(2**63) <= value < 2**63


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("True", True), ("false", False), ("1", False), ("", False)],
)
def test_only_true_in_any_case_is_true(text: str, value: bool) -> None:
    assert parse_bool(text) is value


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (-7, "-7"), ("a b", "a b"), (RequestCode.PULL_MESSAGE, "11")],
)
def test_a_value_is_printed_as_java_prints_it(value: str | int, text: str) -> None:
    assert build_text(value) == text
