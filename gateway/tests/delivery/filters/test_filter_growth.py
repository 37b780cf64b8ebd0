"""The time of every filter function grows in step with what it is given: texts of properties are those of peers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from gateway.delivery.filters.java_numbers import EvaluationError, java_boolean, java_double, java_int, java_long
from gateway.tests.growth import assert_grows_in_step

PROPERTY_CHARACTERS = 16_000
"""Half of what the properties of a message may have."""

NUMBER_LIKE = {
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
