"""SQL92 expressions evaluated the plain way: part by part, nothing known beforehand, no shortcuts.

What the closures are compared with. A value is a pair of its Java type and what it is, or None for null.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.delivery.filters.java_numbers import (
    EvaluationError,
    compare_doubles,
    java_boolean,
    java_double,
    java_int,
    java_long,
)
from gateway.delivery.filters.sql92_tree import (
    Comparison,
    Constant,
    ConstantKind,
    In,
    IsNull,
    Junction,
    Negation,
    Not,
    Part,
    Property,
    Search,
    Truth,
)

Typed = tuple[ConstantKind, str | int | float | bool] | None
Properties = Mapping[str, str]
_READS = {
    ConstantKind.INTEGER: java_int,
    ConstantKind.LONG: java_long,
    ConstantKind.DOUBLE: java_double,
    ConstantKind.BOOLEAN: java_boolean,
}


def letter(part: Part, properties: Properties) -> str:
    """T, F, N or X, as in ``sql92_values.json``."""
    try:
        value = evaluate(part, properties)
    except EvaluationError:
        return "X"
    return "N" if value is None else "T" if value[1] is True else "F"


def evaluate(part: Part, properties: Properties) -> Typed:
    """The value of a part."""
    if isinstance(part, Constant):
        return None if part.value is None else (part.kind, part.value)
    if isinstance(part, Property):
        text = properties.get(part.name)
        return None if text is None else (ConstantKind.STRING, text)
    if isinstance(part, Junction):
        return _junction(part, properties)
    if isinstance(part, Comparison):
        return _comparison(part, properties)
    inner = evaluate(part.operand, properties) if not isinstance(part, Search) or part.text else None
    return _one_operand(part, inner)


def _one_operand(part: Negation | Not | Truth | IsNull | In | Search, inner: Typed) -> Typed:
    if isinstance(part, IsNull):
        return ConstantKind.BOOLEAN, inner is None
    if isinstance(part, Search):
        return ConstantKind.BOOLEAN, _search(part, inner)
    if inner is None:
        return None
    kind, value = inner
    if isinstance(part, Negation):
        return (kind, -value) if kind.is_number and not isinstance(value, str) else None
    if isinstance(part, Not):
        return ConstantKind.BOOLEAN, not value
    if isinstance(part, Truth):
        return ConstantKind.BOOLEAN, False
    return ConstantKind.BOOLEAN, (value in part.texts) != part.negated


def _search(part: Search, inner: Typed) -> bool:
    if inner is None or not isinstance(inner[1], str):
        return False
    text, wanted = inner[1], part.text
    found = {"CONTAINS": wanted in text, "STARTSWITH": text.startswith(wanted), "ENDSWITH": text.endswith(wanted)}
    return found[part.how] != part.negated


def _junction(part: Junction, properties: Properties) -> Typed:
    values = []
    for operand in part.operands:
        value = evaluate(operand, properties)
        if value is not None and value[1] is part.is_or:
            return ConstantKind.BOOLEAN, part.is_or
        values.append(value)
    return None if None in values else (ConstantKind.BOOLEAN, not part.is_or)


def _comparison(part: Comparison, properties: Properties) -> Typed:
    left = evaluate(part.left, properties)
    if part.symbol != "==" and left is None:
        return None
    right = evaluate(part.right, properties)
    if left is None or right is None:
        if part.symbol != "==" or (left is None and right is not None):
            return None
        return ConstantKind.BOOLEAN, left is None
    order = _order(left, right, is_equality=part.symbol == "==")
    holds = {"==": order == 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}
    return ConstantKind.BOOLEAN, holds[part.symbol]


def _order(left: tuple[ConstantKind, object], right: tuple[ConstantKind, object], *, is_equality: bool) -> int:
    """Negative, 0 or positive, as Java's comparison returns."""
    (first, one), (second, other) = left, right
    if first is second is ConstantKind.STRING:
        if is_equality:
            return int(one != other)
        return compare_doubles(java_double(str(one)), java_double(str(other)))
    if first is ConstantKind.BOOLEAN and second is ConstantKind.STRING:
        raise EvaluationError(str(other), "boolean")
    if first is ConstantKind.STRING:
        first, one = second, _READS[second](str(one))
    elif second is ConstantKind.STRING:
        second, other = first, _READS[first](str(other))
    if (first is ConstantKind.BOOLEAN) != (second is ConstantKind.BOOLEAN):
        return -1
    assert isinstance(one, int | float)
    assert isinstance(other, int | float)
    if ConstantKind.DOUBLE in (first, second):
        return compare_doubles(float(one), float(other))
    return (one > other) - (one < other)
