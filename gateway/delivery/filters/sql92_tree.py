"""The parts of an SQL92 expression, and the places in which they are allowed.

Values are Java's: Integer, Long, Double, String, Boolean and null. A property is a String or null. Parts that
upstream's ``ComparisonExpression`` and ``SelectorParser`` refuse while parsing are refused here, with the same
sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

import msgspec

from gateway.delivery.filters.java_numbers import INT_MAX, LONG_MAX

MAX_DEPTH = 128
"""The most levels of parts within parts, and of brackets within brackets.

Upstream has no such number: the limit there is Java's stack.
"""
MAX_SHOWN_CHARACTERS = 200
_DOUBLE_MAX = 1.7976931348623157e308


class ExpressionError(Exception):
    """A text is no SQL92 expression, or goes beyond a limit: the only error of this parser."""


class ConstantKind(Enum):
    """The Java type of a constant."""

    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    STRING = "String"
    BOOLEAN = "Boolean"
    NULL = "null"

    @property
    def is_number(self) -> bool:
        """True if constants of this type can be ordered."""
        return self in (ConstantKind.INTEGER, ConstantKind.LONG, ConstantKind.DOUBLE)


class Constant(msgspec.Struct, frozen=True):
    """A literal."""

    kind: ConstantKind
    value: str | int | float | bool | None
    depth: int = 1

    def __str__(self) -> str:
        if self.kind is ConstantKind.STRING:
            return "'" + str(self.value).replace("'", "''") + "'"
        if self.value is None or isinstance(self.value, bool):
            return str(self.value).replace("None", "NULL").upper()
        return str(self.value)


class Property(msgspec.Struct, frozen=True):
    """The text of a message's property; null if the message has no property of that name."""

    name: str
    depth: int = 1

    def __str__(self) -> str:
        return self.name


class Negation(msgspec.Struct, frozen=True):
    """A minus: a number becomes the negated number, any other value becomes null."""

    operand: Part
    depth: int

    def __str__(self) -> str:
        return f"(- {self.operand})"


class Not(msgspec.Struct, frozen=True):
    """A NOT; null stays null."""

    operand: Part
    depth: int

    def __str__(self) -> str:
        return f"(NOT {self.operand})"


class Truth(msgspec.Struct, frozen=True):
    """A property in place of a truth value: false for any text, even "true"; null if the property is missing."""

    operand: Property
    depth: int

    def __str__(self) -> str:
        return str(self.operand)


class Junction(msgspec.Struct, frozen=True):
    """A group of operands joined by AND or by OR, evaluated from left to right until one decides."""

    is_or: bool
    operands: tuple[Part, ...]
    depth: int

    def __str__(self) -> str:
        return f"({(' || ' if self.is_or else ' && ').join(map(str, self.operands))})"


class Comparison(msgspec.Struct, frozen=True):
    """A comparison ``==``, ``<``, ``<=``, ``>`` or ``>=`` of two values."""

    symbol: str
    left: Part
    right: Part
    depth: int

    def __str__(self) -> str:
        return f"({self.left} {self.symbol} {self.right})"


class IsNull(msgspec.Struct, frozen=True):
    """An IS NULL; never null itself."""

    operand: Part
    depth: int

    def __str__(self) -> str:
        return f"({self.operand} == NULL)"


class In(msgspec.Struct, frozen=True):
    """An IN or NOT IN; null if the property is missing."""

    operand: Property
    texts: frozenset[str]
    negated: bool
    depth: int

    def __str__(self) -> str:
        return f"{self.operand} {'NOT ' if self.negated else ''}IN ( {', '.join(sorted(self.texts))} )"


class Search(msgspec.Struct, frozen=True):
    """A CONTAINS, STARTSWITH or ENDSWITH; never null: false without a text, even if negated."""

    how: str
    operand: Part
    text: str
    negated: bool
    depth: int

    def __str__(self) -> str:
        return f"({'NOT ' if self.negated else ''}{self.how} {self.operand})"


Part: TypeAlias = Constant | Property | Negation | Not | Truth | Junction | Comparison | IsNull | In | Search

TRUE = Constant(ConstantKind.BOOLEAN, True)
FALSE = Constant(ConstantKind.BOOLEAN, False)
NULL = Constant(ConstantKind.NULL, None)


def every(part: Part) -> Iterator[Part]:
    """Yield a part and all parts in it."""
    waiting = [part]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, Junction):
            waiting.extend(each.operands)
        elif isinstance(each, Comparison):
            waiting += (each.left, each.right)
        elif not isinstance(each, Property | Constant):
            waiting.append(each.operand)


def names(part: Part) -> frozenset[str]:
    """Return the names of the properties that a part reads."""
    return frozenset(each.name for each in every(part) if isinstance(each, Property))


def size(part: Part) -> int:
    """Count the parts."""
    return sum(1 for _ in every(part))


def searches(part: Part) -> int:
    """Count the searches in texts. A search counts once, and once more for every 16 characters that it looks for."""
    return sum(1 + len(each.text) // 16 for each in every(part) if isinstance(each, Search))


def requirements(part: Part) -> list[Part]:
    """Split a part: all returned parts are TRUE exactly if the whole part is. No two read the same set of properties.

    Parts that read the fewest properties come first. A part without a value is not TRUE either, so any order is
    allowed.
    """
    by_names: dict[frozenset[str], list[Part]] = {}
    waiting = [part]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Junction) and not each.is_or:
            waiting.extend(reversed(each.operands))
        else:
            by_names.setdefault(names(each), []).append(each)
    ordered_names = sorted(by_names, key=len)
    return [junction(by_names[each], is_or=False) for each in ordered_names]


def shown(part: Part | str) -> str:
    """Return a part's text for an error's sentence."""
    text = str(part)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def decimal_constant(text: str) -> Constant:
    """Return the constant of a whole number, with or without the ``l`` of a long."""
    digits = text.rstrip("lL")
    if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
        raise ExpressionError(f'For input string: "{shown(digits)}"')
    value = int(digits)
    return Constant(ConstantKind.INTEGER if value <= INT_MAX else ConstantKind.LONG, value)


def double_constant(text: str) -> Constant:
    """Return the constant of a number with a point or an exponent; zero is refused, as in upstream."""
    value = float(text)
    if value > _DOUBLE_MAX:
        raise ExpressionError(f"{shown(text)} is greater than 1.7976931348623157E308")
    if value == 0.0:
        raise ExpressionError(f"{shown(text)} is less than 4.9E-324")
    return Constant(ConstantKind.DOUBLE, value)


def negation(operand: Part) -> Negation:
    """Return the part ``- operand``."""
    return Negation(operand, _around(operand))


def negated(operand: Part) -> Not:
    """Return the part ``NOT operand``."""
    truth = as_truth(operand)
    return Not(truth, _around(truth))


def as_truth(part: Part) -> Part:
    """Return the part as an operand of AND, OR or NOT, or as a whole expression: a property becomes a ``Truth``.

    :raises ExpressionError: the part can never be true or false.
    """
    if isinstance(part, Property):
        return Truth(part, _around(part))
    if isinstance(part, Negation) or (
        isinstance(part, Constant) and part.kind not in (ConstantKind.BOOLEAN, ConstantKind.NULL)
    ):
        raise ExpressionError(f"Expression will not result in a boolean value: {shown(part)}")
    return part


def junction(operands: list[Part], *, is_or: bool) -> Part:
    """Return the operands joined by AND or OR; return a single operand unchanged."""
    if len(operands) == 1:
        return operands[0]
    truths = tuple(map(as_truth, operands))
    return Junction(is_or, truths, _around(*truths))


def equal(left: Part, right: Part) -> Comparison:
    """Return the part ``left = right``."""
    for part in (left, right):
        if isinstance(part, Constant) and part.kind is ConstantKind.NULL:
            raise ExpressionError(f"'{part}' cannot be compared.")
    constants = isinstance(left, Constant) and isinstance(right, Constant)
    if constants and left.kind is ConstantKind.BOOLEAN and right.kind is not ConstantKind.BOOLEAN:  # type: ignore[union-attr]
        raise ExpressionError(f"'{shown(left)}' cannot be compared with '{shown(right)}'")
    return Comparison("==", left, right, _around(left, right))


def ordered(symbol: str, left: Part, right: Part) -> Comparison:
    """Return the part ``left < right`` or a similar one: for numbers, and for properties that hold numbers."""
    for part in (left, right):
        number = part.kind.is_number if isinstance(part, Constant) else isinstance(part, Property | Negation)
        if not number:
            raise ExpressionError(f"Value '{shown(part)}' cannot be compared.")
    return Comparison(symbol, left, right, _around(left, right))


def between(value: Part, low: Part, high: Part, *, outside: bool) -> Junction:
    """Return the part ``value BETWEEN low AND high``, or NOT BETWEEN."""
    if outside:
        sides: tuple[Part, ...] = (ordered("<", value, low), ordered(">", value, high))
        return Junction(True, sides, _around(*sides))
    if isinstance(low, Constant) and isinstance(high, Constant):
        _check_bounds(low, high)
    sides = (ordered(">=", value, low), ordered("<=", value, high))
    return Junction(False, sides, _around(*sides))


def _check_bounds(low: Constant, high: Constant) -> None:
    if low.value is None or high.value is None:
        raise ExpressionError("Illegal values of between, values can not be null!")
    if low.kind.is_number and high.kind.is_number and _as_numbers_greater(low, high):
        raise ExpressionError(
            f"Illegal values of between, left value({low}) must less than or equal to right value({high})"
        )


def _as_numbers_greater(left: Constant, right: Constant) -> bool:
    first, second = left.value, right.value
    assert isinstance(first, int | float), "a number"
    assert isinstance(second, int | float), "a number"
    if ConstantKind.DOUBLE in (left.kind, right.kind):
        return float(first) > float(second)
    return first > second


def is_null(operand: Part) -> IsNull:
    """Return the part ``operand IS NULL``."""
    return IsNull(operand, _around(operand))


def one_of(operand: Part, texts: frozenset[str], *, negated: bool) -> In:
    """Return the part ``operand IN (texts)``, or NOT IN."""
    if not isinstance(operand, Property):
        raise ExpressionError(f"Expected a property for In expression, got: {shown(operand)}")
    return In(operand, texts, negated, _around(operand))


def search(how: str, operand: Part, text: str, *, negated: bool) -> Search:
    """Return the part ``operand CONTAINS text`` or a similar one."""
    return Search(how, operand, text, negated, _around(operand))


def _around(*parts: Part) -> int:
    """Return the depth of a part made of other parts.

    :raises ExpressionError: the parts are nested too deep.
    """
    depth = max(part.depth for part in parts) + 1
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels")
    return depth
