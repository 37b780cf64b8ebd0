"""The SQL92 filter of a subscription: an expression over the properties of a message.

Compiled once, then called for every message a consumer might get. Only properties are looked at, never the body. A
message matches when the expression is TRUE: not when it is NULL, nor when it has no value because a property is no
number where one is needed. Upstream: ``SqlFilter`` and ``ExpressionMessageFilter``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from gateway.delivery.filters.java_numbers import EvaluationError
from gateway.delivery.filters.sql92_closures import closure
from gateway.delivery.filters.sql92_grammar import parse_expression
from gateway.delivery.filters.sql92_tree import ExpressionError, names

EXPRESSION_TYPE_SQL92 = "SQL92"
MAX_CACHED_EXPRESSIONS = 128
"""Kept, compiled or refused, for the pulls that bring their own each time (upstream keeps 100)."""

PropertyFilter = Callable[[Mapping[str, str]], bool]
"""True for the properties of a message that the subscription wants."""


class Sql92Filter:
    """A compiled expression. ``matches`` takes all properties of a message, or those that ``properties_of`` finds."""

    __slots__ = ("_find_pairs", "matches")

    def __init__(self, matches: PropertyFilter, names: Collection[str]) -> None:
        self.matches = matches
        # A pair without a value is none; of several with one name the last one counts.
        pattern = f"\x02({'|'.join(map(re.escape, sorted(names)))})\x01([^\x02]+)"
        self._find_pairs = re.compile(pattern).findall if names else None

    def properties_of(self, raw: bytes) -> dict[str, str]:
        """Those that the expression names, out of a property string: the others need not be taken apart."""
        if self._find_pairs is None:
            return {}
        return dict(self._find_pairs(f"\x02{str(raw, 'utf-8', 'replace')}"))


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
    evaluate = closure(part)

    def matches(properties: Mapping[str, str]) -> bool:
        try:
            return evaluate(properties) is True
        except EvaluationError:
            return False

    return Sql92Filter(matches, names(part))
