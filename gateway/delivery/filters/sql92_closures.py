"""From the parts of an expression to closures: known values are decided once, not for each message.

A closure takes a message's properties and returns True, False or None (null), as Java's evaluation would. Operands are
read in the same order as in Java, because an operand without a value (``EvaluationError``) ends the whole evaluation.
Numbers are compared in the Java type of the constant:

- beside ``5``, a property is read as an int
- beside ``5000000000``, as a long
- beside ``5.0``, as a double
- beside another property, as text for equality and as a double for order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

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

Properties: TypeAlias = Mapping[str, str]
Value: TypeAlias = Any
"""The value of a Java expression: str, int, float, bool or None."""
Evaluate: TypeAlias = Callable[[Properties], Value]
Reads: TypeAlias = Callable[[str], Value]
Compares: TypeAlias = Callable[[Value, Value], bool]

_FLIPPED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_READS: dict[ConstantKind, Reads] = {
    ConstantKind.INTEGER: java_int,
    ConstantKind.LONG: java_long,
    ConstantKind.DOUBLE: java_double,
    ConstantKind.BOOLEAN: java_boolean,
}
_EXACT: dict[str, Compares] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPPOSITE = {">": "<=", ">=": "<"}


def closure(part: Part) -> Evaluate:
    """Return the closure of a part."""
    make: Callable[[Any], Evaluate] = _MAKES[type(part)]
    return make(part)


def _constant(part: Constant) -> Evaluate:
    value = part.value
    return lambda _: value


def _property(part: Property) -> Evaluate:
    name = part.name
    return lambda properties: properties.get(name)


def _negation(part: Negation) -> Evaluate:
    number = _number(part)
    if number is not None:
        return _constant(number)
    inner = closure(part.operand)

    def nothing(properties: Properties) -> Value:
        inner(properties)  # it may have no value
        return None

    return nothing if part.depth > _PLAIN_DEPTH else lambda _: None


_PLAIN_DEPTH = 2
"""The depth of a property or a literal with a sign, whose evaluation cannot fail."""


def _not(part: Not) -> Evaluate:
    inner = closure(part.operand)

    def invert(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return invert


def _truth(part: Truth) -> Evaluate:
    name = part.operand.name
    return lambda properties: False if name in properties else None


def _junction(part: Junction) -> Evaluate:
    between = _between(part)
    if between is not None:
        return between
    inner = [closure(operand) for operand in part.operands]
    decisive = part.is_or
    if len(inner) == 2:
        return _pair(inner[0], inner[1], decisive)

    def join(properties: Properties) -> Value:
        null = False
        for each in inner:
            value = each(properties)
            if value is decisive:
                return decisive
            null = null or value is None
        return None if null else not decisive

    return join


def _between(part: Junction) -> Evaluate | None:
    """Return a closure for a property between two numbers of one type, read once instead of twice.

    Return None for any other junction.
    """
    first, last = part.operands[0], part.operands[-1]
    if part.is_or or len(part.operands) != 2 or not isinstance(first, Comparison) or not isinstance(last, Comparison):
        return None
    low, high = _number(first.right), _number(last.right)
    if not isinstance(first.left, Property) or first.left != last.left or low is None or high is None:
        return None
    if (first.symbol, last.symbol) != (">=", "<=") or low.kind is not high.kind:
        return None
    name, reads, lowest, highest = first.left.name, _READS[low.kind], low.value, high.value
    assert isinstance(lowest, int | float), "a number"
    assert isinstance(highest, int | float), "a number"

    def within(properties: Properties) -> Value:
        text = properties.get(name)
        return None if text is None else lowest <= reads(text) <= highest

    return within


def _pair(first: Evaluate, second: Evaluate, decisive: bool) -> Evaluate:
    """Return the closure of a ``_junction`` of two, without a loop."""

    def join(properties: Properties) -> Value:
        left = first(properties)
        if left is decisive:
            return decisive
        right = second(properties)
        if right is decisive:
            return decisive
        return None if left is None or right is None else not decisive

    return join


def _is_null(part: IsNull) -> Evaluate:
    if isinstance(part.operand, Property):
        name = part.operand.name
        return lambda properties: name not in properties
    inner = closure(part.operand)
    return lambda properties: inner(properties) is None


def _in(part: In) -> Evaluate:
    name, texts, negated = part.operand.name, part.texts, part.negated

    def contained(properties: Properties) -> Value:
        text = properties.get(name)
        return None if text is None else (text in texts) is not negated

    return contained


def _search(part: Search) -> Evaluate:
    wanted, negated = part.text, part.negated
    if not wanted:
        return lambda _: False
    inner = closure(part.operand)
    how: Callable[[str, str], bool] = _SEARCHES[part.how]

    def search(properties: Properties) -> Value:
        text = inner(properties)
        return isinstance(text, str) and how(text, wanted) is not negated

    return search


_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}

# -- comparisons ----------------------------------------------------------------------------------------------------


def _comparison(part: Comparison) -> Evaluate:
    symbol, left, right = part.symbol, part.left, part.right
    left, right = _number(left) or left, _number(right) or right
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _constants(symbol, left, right)
    if isinstance(left, Property) and isinstance(right, Constant):
        return _property_and_constant(symbol, left.name, right)
    if isinstance(left, Constant) and isinstance(right, Property) and left.kind is not ConstantKind.BOOLEAN:
        without = False if symbol == "==" else None  # a missing property is null only on the left of an equality
        return _property_and_constant(_FLIPPED[symbol], right.name, left, without)
    if symbol == "==":
        return _equality(closure(left), closure(right), left, right)
    return _order(symbol, closure(left), closure(right), left, right)


def _number(part: Part) -> Constant | None:
    """Return the number of a constant with any signs; None for other parts."""
    signs = 0
    while isinstance(part, Negation):
        part, signs = part.operand, signs + 1
    if not isinstance(part, Constant) or not part.kind.is_number:
        return None
    assert isinstance(part.value, int | float), "a number"
    return Constant(part.kind, -part.value if signs % 2 else part.value)


def _property_and_constant(symbol: str, name: str, constant: Constant, without: bool | None = None) -> Evaluate:
    """Return the closure for a property beside a literal, as in nearly all comparisons.

    :param without: the value if the message lacks the property.
    """
    value = constant.value
    if constant.kind is ConstantKind.STRING:

        def equals(properties: Properties) -> Value:
            text = properties.get(name)
            return without if text is None else text == value

        return equals
    reads = _READS[constant.kind]
    if constant.kind is ConstantKind.DOUBLE and symbol in _OPPOSITE:
        return _above(name, _EXACT[_OPPOSITE[symbol]], constant.value, without)
    compares = _EXACT[symbol]

    def compare(properties: Properties) -> Value:
        text = properties.get(name)
        return without if text is None else compares(reads(text), value)

    return compare


def _above(name: str, is_below: Compares, bound: Value, without: bool | None) -> Evaluate:
    """Return the closure for a property above a double.

    Java puts NaN above every number; in Python NaN is neither below nor above a number.
    """

    def compare(properties: Properties) -> Value:
        text = properties.get(name)
        return without if text is None else not is_below(java_double(text), bound)

    return compare


def _constants(symbol: str, left: Constant, right: Constant) -> Evaluate:
    try:
        value = _compared(symbol, left.kind, left.value, right.kind, right.value)
    except EvaluationError as error:
        text = str(error)
        return lambda _: _fail(text)
    return lambda _: value


def _equality(first: Evaluate, second: Evaluate, left: Part, right: Part) -> Evaluate:
    left_kind, right_kind = _kind(left), _kind(right)

    def equals(properties: Properties) -> Value:
        one, other = first(properties), second(properties)
        if one is None or other is None:
            return True if one is other else None if one is None else False
        return _compared("==", left_kind, one, right_kind, other)

    return equals


def _order(symbol: str, first: Evaluate, second: Evaluate, left: Part, right: Part) -> Evaluate:
    left_kind, right_kind = _kind(left), _kind(right)

    def compare(properties: Properties) -> Value:
        one = first(properties)
        if one is None:
            return None
        other = second(properties)
        return None if other is None else _compared(symbol, left_kind, one, right_kind, other)

    return compare


def _kind(part: Part) -> ConstantKind:
    """Return the type of a part's values that are not null."""
    if isinstance(part, Constant):
        return part.kind
    if isinstance(part, Property):
        return ConstantKind.STRING
    return ConstantKind.NULL if isinstance(part, Negation) else ConstantKind.BOOLEAN


def _compared(symbol: str, left_kind: ConstantKind, left: Value, right_kind: ConstantKind, right: Value) -> bool:
    """Compare two values that are not null, by the rules of upstream's ``ComparisonExpression``."""
    kinds = (left_kind, right_kind)
    if kinds == (ConstantKind.STRING, ConstantKind.STRING):
        if symbol == "==":
            return bool(left == right)
        return _EXACT[symbol](compare_doubles(java_double(left), java_double(right)), 0)
    if left_kind is ConstantKind.BOOLEAN and right_kind is ConstantKind.STRING:
        raise EvaluationError(right, "boolean: only TRUE or FALSE on the right of a text is compared with it")
    if left_kind is ConstantKind.STRING:
        left, left_kind = _READS[right_kind](left), right_kind
    elif right_kind is ConstantKind.STRING:
        right, right_kind = _READS[left_kind](right), left_kind
    if (left_kind is ConstantKind.BOOLEAN) is not (right_kind is ConstantKind.BOOLEAN):
        return False  # upstream calls them less, and only equality gets here
    if ConstantKind.DOUBLE in kinds:
        left, right = float(left), float(right)
        return _EXACT[symbol](compare_doubles(left, right), 0)
    return _EXACT[symbol](left, right)


def _fail(text: str) -> Value:
    raise EvaluationError(text, "value")


_MAKES: dict[type[Part], Callable[[Any], Evaluate]] = {
    Constant: _constant,
    Property: _property,
    Negation: _negation,
    Not: _not,
    Truth: _truth,
    Junction: _junction,
    Comparison: _comparison,
    IsNull: _is_null,
    In: _in,
    Search: _search,
}
