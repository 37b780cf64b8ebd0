"""The SQL92 filter of a subscription: an expression over the properties of a message.

An expression is compiled once, then called for every message that a consumer might get. The filter reads only
properties, never the body. A message matches if the expression is TRUE. A message does not match if the expression is
NULL, or if the expression has no value because a property is not a number where a number is needed. Upstream:
``SqlFilter`` and ``ExpressionMessageFilter``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gateway.delivery.filters.java_numbers import EvaluationError
from gateway.delivery.filters.record_filter import Effort, PropertyCondition, PropertyFilter, RecordFilter, Work
from gateway.delivery.filters.sql92_closures import closure
from gateway.delivery.filters.sql92_grammar import MAX_EXPRESSION_CHARACTERS, parse_expression
from gateway.delivery.filters.sql92_tree import ExpressionError, Part, names, requirements, searches, size
from gateway.delivery.filters.turns import COMPILE_STEPS, FilterTurns
from gateway.store.reading.wanted import ChooseRecords

EXPRESSION_TYPE_SQL92 = "SQL92"
MAX_CACHED_EXPRESSIONS = 1_000
"""The number of kept expressions, compiled or refused, for pulls that bring their own (upstream keeps 100)."""
MAX_CACHED_CHARACTERS = 262_144
"""The characters of all kept expressions."""
BYTES_OF_CHARACTER = 150
"""The most bytes that a compiled expression takes for each of its characters."""
BYTES_OF_VERDICT = 160
"""The bytes of a remembered verdict on a text of 30 bytes."""


class Sql92Filter:
    """A compiled expression, for properties and for stored records.

    :param conditions: every condition must be true.
    :param characters: the length of the expression.
    """

    __slots__ = ("_characters", "_conditions", "_effort", "_names", "_records", "matches")

    def __init__(self, conditions: Sequence[PropertyCondition], characters: int = 0) -> None:
        self._characters = characters
        self._conditions = conditions
        all_match = [each.matches for each in conditions]
        self.matches: PropertyFilter = all_match[0] if len(all_match) == 1 else partial(_match_all, all_match)
        self._records = RecordFilter(conditions)
        self._names = [name for each in conditions for name in each.names]
        self._effort = Effort(
            sum(each.effort.parts for each in conditions), sum(each.effort.searches for each in conditions)
        )

    def joined(self, other: Sql92Filter) -> Sql92Filter:
        """Return a filter of the conditions of both."""
        return Sql92Filter([*self._conditions, *other._conditions], self._characters + other._characters)

    @property
    def kept_bytes(self) -> int:
        """The most bytes that the filter has in memory now, with what it remembers."""
        return BYTES_OF_CHARACTER * self._characters + BYTES_OF_VERDICT * sum(
            each.verdicts for each in self._conditions
        )

    def steps(self, properties: Mapping[str, str]) -> int:
        """Return the most steps that ``matches`` takes for properties."""
        return self._effort.steps(sum(len(properties.get(name, "")) for name in self._names))

    def choose_within(self, work: Work) -> ChooseRecords:
        """Return a function that chooses stored records until ``work`` is used up."""
        choose = self._records.choose

        def chosen(data: bytes, start: int, units: bytes, least: int) -> tuple[list[int], int]:
            return choose(data, start, units, work, least)

        return chosen


__all__ = [
    "EXPRESSION_TYPE_SQL92",
    "MAX_CACHED_CHARACTERS",
    "MAX_CACHED_EXPRESSIONS",
    "ExpressionError",
    "PropertyFilter",
    "Sql92Filter",
    "sql92_filter",
]


class FilterCache:
    """The kept expressions and their outcomes, the oldest first: many clients pull with the same expressions.

    :param limit: how many expressions are kept.
    :param characters: the characters of all kept expressions.
    """

    def __init__(self, limit: int = MAX_CACHED_EXPRESSIONS, characters: int = MAX_CACHED_CHARACTERS) -> None:
        self._limit = limit
        self._characters = characters
        self._outcomes: dict[str, Sql92Filter | str] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._outcomes)

    def find(self, expression: str) -> Sql92Filter | str | None:
        """Return the filter, or why there is none; None for an expression that is not kept."""
        outcome = self._outcomes.pop(expression, None)
        if outcome is not None:
            self._outcomes[expression] = outcome  # asked for last
        return outcome

    def keep(self, expression: str, outcome: Sql92Filter | str) -> None:
        """Remember the outcome of an expression that was not kept."""
        self._outcomes[expression] = outcome
        self._held += len(expression)
        while len(self._outcomes) > self._limit or self._held > self._characters:
            oldest = next(iter(self._outcomes))
            del self._outcomes[oldest]
            self._held -= len(oldest)


_cache = FilterCache()


def sql92_filter(expression: str, turns: FilterTurns | None = None) -> Sql92Filter:
    """Return the filter of an expression.

    :param turns: pays for an expression that has to be compiled.
    :raises ExpressionError: the text is no expression; the sentence says what is wrong and where.
    """
    outcome = _cache.find(expression)
    if outcome is None:
        outcome = compile_filter(expression)
        if turns is not None:
            turns.spend(COMPILE_STEPS * min(len(expression), MAX_EXPRESSION_CHARACTERS))
        if len(expression) <= MAX_EXPRESSION_CHARACTERS:
            _cache.keep(expression, outcome)
    if isinstance(outcome, str):
        raise ExpressionError(outcome)
    return outcome


def compile_filter(expression: str) -> Sql92Filter | str:
    """Return the filter, or why there is none: a client with a wrong expression pulls with it again and again."""
    try:
        part = parse_expression(expression)
    except ExpressionError as error:
        return str(error)
    return Sql92Filter(
        [
            PropertyCondition(_matches(each), names(each), Effort(size(each), searches(each)))
            for each in requirements(part)
        ],
        len(expression),
    )


def _matches(part: Part) -> PropertyFilter:
    evaluate = closure(part)

    def matches(properties: Mapping[str, str]) -> bool:
        try:
            return evaluate(properties) is True
        except EvaluationError:
            return False

    return matches


def _match_all(all_match: Sequence[PropertyFilter], properties: Mapping[str, str]) -> bool:
    for matches in all_match:  # noqa: SIM110 (a generator costs more than most conditions)
        if not matches(properties):
            return False
    return True
