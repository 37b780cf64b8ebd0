"""Numbers as Java reads them from a property: what ``Integer.valueOf``, ``Long.valueOf`` and ``Double.valueOf`` accept.

A property is text. In a comparison with a number, the text is read as that number's Java type; a text that is not such
a number ends the whole evaluation. Python's own ``int`` and ``float`` accept both more (underscores, spaces) and less
(``1d``, hexadecimal).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
LONG_DIGITS = 19
"""The number of digits of the largest long, without leading zeros."""
LONG_TEXT = 512
"""The characters above which the number of a text is remembered, instead of read again in each comparison."""
REMEMBERED_TEXTS = 64
"""The number of remembered long texts: as many as fit in the properties of a message, 32 KB."""
MAX_SHOWN_CHARACTERS = 64
_TRUE_CHARACTERS = 4
_BEYOND_BMP = 0x1_0000

_TRIMMED = "".join(map(chr, range(33)))
# Every repetition is possessive (++, *+): a text that is no number is read once, not once for each way to divide it.
_DECIMAL = re.compile(r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?")
_NAMED = {
    sign + name: float(sign + value) for sign in ("", "+", "-") for name, value in (("NaN", "nan"), ("Infinity", "inf"))
}


class EvaluationError(Exception):
    """An expression has no value for these properties: the message does not match, regardless of other conditions."""

    def __init__(self, text: str, wanted: str) -> None:
        super().__init__(f"{text[:MAX_SHOWN_CHARACTERS]!r} is no {wanted}")


def java_int(text: str) -> int:
    """Return ``Integer.valueOf(text)``.

    :raises EvaluationError: not digits with at most one sign, or outside −2^31 … 2^31−1.
    """
    value = int(text) if len(text) <= LONG_DIGITS and text.isdigit() and text.isascii() else _whole(text, "int")
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError(text, "int")


def java_long(text: str) -> int:
    """Return ``Long.valueOf(text)``.

    :raises EvaluationError: not digits with at most one sign, or outside −2^63 … 2^63−1.
    """
    value = int(text) if len(text) <= LONG_DIGITS and text.isdigit() and text.isascii() else _whole(text, "long")
    if LONG_MIN <= value <= LONG_MAX:
        return value
    raise EvaluationError(text, "long")


def _whole(text: str, wanted: str) -> int:
    return _digits(text, wanted) if len(text) <= LONG_TEXT else _long_digits(text, wanted)


def _digits(text: str, wanted: str) -> int:
    """Return the number of a text with a sign, leading zeros, or decimal digits of other scripts.

    Java accepts digits of other scripts if each digit is one char.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal():
        raise EvaluationError(text, wanted)
    significant = digits.lstrip("0" if digits.isascii() else _zeros()) or "0"
    if len(significant) > LONG_DIGITS or ord(max(significant)) >= _BEYOND_BMP:
        raise EvaluationError(text, wanted)
    value = int(significant)
    return -value if text[0] == "-" else value


_long_digits = lru_cache(maxsize=REMEMBERED_TEXTS)(_digits)


@cache
def _zeros() -> str:
    """Return the digit zero of every script."""
    return "".join(each for each in map(chr, range(_BEYOND_BMP)) if each.isdecimal() and int(each) == 0)


def java_double(text: str) -> float:
    """Return ``Double.valueOf(text)``: also ``NaN``, ``Infinity``, a final ``d`` or ``f``, hexadecimal, outer space.

    :raises EvaluationError: any other text.
    """
    return _double(text) if len(text) <= LONG_TEXT else _long_double(text)


def _double(text: str) -> float:
    if text and not text.strip("0123456789."):  # what nearly all are
        try:
            return float(text)
        except ValueError:
            raise EvaluationError(text, "double") from None
    trimmed = text.strip(_TRIMMED)
    decimal = _DECIMAL.fullmatch(trimmed)
    if decimal is not None:
        return float(decimal[1])
    if trimmed in _NAMED:
        return _NAMED[trimmed]
    hexadecimal = _HEXADECIMAL.fullmatch(trimmed)
    if hexadecimal is None:
        raise EvaluationError(text, "double")
    try:
        return float.fromhex(hexadecimal[1])
    except OverflowError:
        return float("-inf" if trimmed[0] == "-" else "inf")


_long_double = lru_cache(maxsize=REMEMBERED_TEXTS)(_double)


def compare_doubles(left: float, right: float) -> int:
    """Return ``Double.compare(left, right)``: NaN equals itself and is above all others, 0.0 is above −0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    first, second = _rank(left), _rank(right)
    return (first > second) - (first < second)


def _rank(value: float) -> int:
    """Return a rank that orders values for which neither ``<`` nor ``>`` is true."""
    if value != value:
        return 2
    return 0 if value == 0.0 and str(value)[0] == "-" else 1


def java_boolean(text: str) -> bool:
    """Return ``Boolean.valueOf(text)``: "true" in any case is true; every other text is false."""
    return len(text) == _TRUE_CHARACTERS and text.lower() == "true"
