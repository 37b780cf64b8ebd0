"""The SQL92 filter of a subscription: an expression over the properties of a message.

Compiled once, then called for every message a consumer might get. Only properties are looked at, never the body. A
message matches when the expression is TRUE: not when it is NULL, nor when it has no value because a property is no
number where one is needed. Upstream: ``SqlFilter`` and ``ExpressionMessageFilter``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gateway.delivery.filters.java_numbers import EvaluationError
from gateway.delivery.filters.record_filter import Condition, PropertyFilter, RecordFilter
from gateway.delivery.filters.sql92_closures import closure
from gateway.delivery.filters.sql92_grammar import parse_expression
from gateway.delivery.filters.sql92_tree import ExpressionError, Part, names, requirements

EXPRESSION_TYPE_SQL92 = "SQL92"
MAX_CACHED_EXPRESSIONS = 128
"""Kept, compiled or refused, for the pulls that bring their own each time (upstream keeps 100)."""


class Sql92Filter:
    """A compiled expression, for what has properties and for stored records."""

    __slots__ = ("choose", "matches")

    def __init__(self, matches: PropertyFilter, conditions: Sequence[Condition]) -> None:
        self.matches = matches
        self.choose = RecordFilter(conditions).choose


__all__ = [
    "EXPRESSION_TYPE_SQL92",
    "MAX_CACHED_EXPRESSIONS",
    "ExpressionError",
    "PropertyFilter",
    "Sql92Filter",
    "sql92_filter",
]


def sql92_filter(expression: str) -> Sql92Filter:
    """The filter of an expression.

    :raises ExpressionError: it is none; the sentence says what is wrong and where.
    """
    outcome = _outcome(expression)
    if isinstance(outcome, str):
        raise ExpressionError(outcome)
    return outcome


@lru_cache(maxsize=MAX_CACHED_EXPRESSIONS)
def _outcome(expression: str) -> Sql92Filter | str:
    """The filter, or why there is none: a client with a wrong expression pulls with it again and again."""
    try:
        part = parse_expression(expression)
    except ExpressionError as error:
        return str(error)
    conditions = [Condition(_matches(each), names(each)) for each in requirements(part)]
    return Sql92Filter(_matches(part), conditions)


def _matches(part: Part) -> PropertyFilter:
    evaluate = closure(part)

    def matches(properties: Mapping[str, str]) -> bool:
        try:
            return evaluate(properties) is True
        except EvaluationError:
            return False

    return matches
