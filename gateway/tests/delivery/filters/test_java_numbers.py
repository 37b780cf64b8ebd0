"""Texts read as numbers by Java's rules; what it accepts was asked of Java 17."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.filters.java_numbers import (
    EvaluationError,
    compare_doubles,
    java_boolean,
    java_double,
    java_int,
    java_long,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("007", 7),
        ("-" + "0" * 40 + "7", -7),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("٣", 3),
        ("٠" * 40 + "٣", 3),
        ("+٠", 0),
        ("９", 9),
    ],
)
def test_an_int_is_digits_of_any_script_with_a_sign(text: str, value: int) -> None:
    assert java_int(text) == value
    assert java_long(text) == value


NO_NUMBERS = [
    "",
    " ",
    "+",
    "-",
    "--5",
    "+-5",
    "5-",
    " 5",
    "5 ",
    "5.0",
    "1e3",
    "1_000",
    "0x10",
    "5L",
    "abc",
    "²",
    "𝟘",
    "0𝟘",
]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_anything_else_is_no_int(text: str) -> None:
    for reads in (java_int, java_long):
        with pytest.raises(EvaluationError):
            reads(text)


def test_ints_and_longs_have_bounds() -> None:
    assert java_long("9223372036854775807") == 2**63 - 1
    assert java_long("-9223372036854775808") == -(2**63)
    for text in ("2147483648", "-2147483649", "99999999999999999999", "9" * 5_000, "9" * 32_000):
        with pytest.raises(EvaluationError):
            java_int(text)
    for text in ("9223372036854775808", "-9223372036854775809", "9" * 5_000):
        with pytest.raises(EvaluationError):
            java_long(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("1.5d", 1.5),
        ("1.5F", 1.5),
        ("\t -1e3 \n", -1000.0),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("1e-400", 0.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("0x1p3", 8.0),
        ("0X1.8P1d", 3.0),
        ("-0x1p99999", -math.inf),
        ("0x1.p1", 2.0),
        ("0x.8p1", 1.0),
        ("1e" + "9" * 400, math.inf),
        ("1e-" + "9" * 400, 0.0),
        ("0" * 30_000 + "5.", 5.0),
        ("0x1p-99999", 0.0),
    ],
)
def test_a_double_may_be_written_in_many_ways(text: str, value: float) -> None:
    assert java_double(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "..", "1.2.3", "e5", "1e", "0x10", "inf", "nan", "infinity", "1_0", "٣", "1 5", "1dd", "\xa01"]
)
def test_anything_else_is_no_double(text: str) -> None:
    with pytest.raises(EvaluationError):
        java_double(text)


@given(st.floats(allow_nan=False))
def test_a_double_is_read_as_python_writes_it(value: float) -> None:
    text = repr(value).replace("inf", "Infinity")
    assert math.copysign(1, java_double(text)) == math.copysign(1, value)
    assert java_double(text) == value


def test_nan_is_above_all_and_zero_above_its_negative() -> None:
    ascending = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for at, left in enumerate(ascending):
        for other, right in enumerate(ascending):
            assert compare_doubles(left, right) == (at > other) - (at < other)
    assert math.isnan(java_double("NaN"))
    assert math.isnan(java_double(" -NaN"))


def test_true_is_true_in_any_case_and_all_else_false() -> None:
    assert [java_boolean(text) for text in ("true", "TRUE", "tRuE", "yes", "1", "true ", "")] == [True] * 3 + [
        False
    ] * 4
