"""The grammar of SQL92 expressions: from text to parts, by precedence.

    expression  OR < AND < equality (= <> IS) < comparison (< <= > >= BETWEEN IN CONTAINS …) < unary (+ - NOT) < value

NOT binds as tightly as a minus: ``NOT a = 5`` compares ``NOT a`` with 5. There is no arithmetic and no LIKE. Text after
a whole expression is ignored. Upstream: ``SelectorParser``.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.delivery.filters.sql92_tokens import TokenKind, Tokens
from gateway.delivery.filters.sql92_tree import (
    FALSE,
    MAX_DEPTH,
    NULL,
    TRUE,
    Constant,
    ConstantKind,
    ExpressionError,
    Part,
    Property,
    as_truth,
    between,
    decimal_constant,
    double_constant,
    equal,
    is_null,
    junction,
    negated,
    negation,
    one_of,
    ordered,
    search,
)

MAX_EXPRESSION_CHARACTERS = 16_384
"""The longest expression: room for IN with 400 UUIDs or 1,000 numbers of twelve digits.

Upstream has no limit of its own.
"""
MAX_OPERANDS = 2_048
"""The number of properties, literals, signs and brackets in one expression: 1,000 comparisons.

The texts after IN do not count.
"""
MAX_SEARCHES = 256
"""The number of CONTAINS, STARTSWITH and ENDSWITH in one expression.

Each search counts once more for every 16 characters searched for. With this limit the costliest evaluation, with texts
made for the purpose, takes 50 ms instead of 100.
"""

_NAMED = {"TRUE": TRUE, "FALSE": FALSE, "NULL": NULL}
_EQUALITIES = frozenset(("=", "<>", "IS"))
_ORDERS = frozenset(("<", "<=", ">", ">="))
_SEARCHES = frozenset(("CONTAINS", "STARTSWITH", "ENDSWITH"))
_COMPARISONS = _ORDERS | _SEARCHES | {"NOT", "BETWEEN", "IN"}
_SIGNS = frozenset(("+", "-", "NOT"))
_LITERALS: dict[TokenKind, Callable[[str], Part]] = {
    TokenKind.WORD: Property,
    TokenKind.STRING: lambda text: Constant(ConstantKind.STRING, text),
    TokenKind.DECIMAL: decimal_constant,
    TokenKind.DOUBLE: double_constant,
}


def parse_expression(text: str) -> Part:
    """Return the part that says whether a message matches.

    :raises ExpressionError: the text is no expression, or beyond a limit; the sentence says what is wrong and where.
    """
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        raise ExpressionError(f"the expression has {len(text)} characters, the limit is {MAX_EXPRESSION_CHARACTERS}")
    return as_truth(_Parser(text).expression())


class _Parser:
    """The parser: five calls deep for each bracket, so Python's stack is enough for ``MAX_DEPTH``."""

    __slots__ = ("_depth", "_operands", "_searches", "_tokens")

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._depth = 0
        self._operands = 0
        self._searches = 0

    def expression(self) -> Part:
        """Parse operands joined by OR, each of which is operands joined by AND."""
        take_mark = self._tokens.take_mark
        alternatives: list[Part] = []
        while True:
            conditions = [self._equality()]
            while take_mark("AND"):
                conditions.append(self._equality())
            alternatives.append(junction(conditions, is_or=False))
            if not take_mark("OR"):
                return junction(alternatives, is_or=True)

    def _equality(self) -> Part:
        tokens = self._tokens
        left = self._comparison()
        while (mark := tokens.mark) in _EQUALITIES:
            tokens.take()
            if mark == "IS":
                is_not = tokens.take_mark("NOT")
                tokens.expect("NULL")
                left = negated(is_null(left)) if is_not else is_null(left)
            else:
                same = equal(left, self._comparison())
                left = same if mark == "=" else negated(same)
        return left

    def _comparison(self) -> Part:
        tokens = self._tokens
        left = self._unary()
        while (mark := tokens.mark) in _COMPARISONS:
            if mark in _ORDERS:
                left = ordered(tokens.take(), left, self._unary())
            else:
                left = self._predicate(left, is_not=tokens.take_mark("NOT"))
        return left

    def _predicate(self, left: Part, *, is_not: bool) -> Part:
        tokens = self._tokens
        if tokens.mark in _SEARCHES:
            self._count()
            how, text = tokens.take(), self._string()
            self._searches += 1 + len(text) // 16
            if self._searches > MAX_SEARCHES:
                raise ExpressionError(f"the expression has more than {MAX_SEARCHES} searches (CONTAINS and its like)")
            return search(how, left, text, negated=is_not)
        if tokens.take_mark("BETWEEN"):
            low = self._unary()
            tokens.expect("AND")
            return between(left, low, self._unary(), outside=is_not)
        if not tokens.take_mark("IN"):
            raise tokens.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        tokens.expect("(")
        texts = [self._string()]
        while tokens.take_mark(","):
            texts.append(self._string())
        tokens.expect(")")
        return one_of(left, frozenset(texts), negated=is_not)

    def _unary(self) -> Part:
        """Parse a value with its signs, which are applied from the inside out."""
        tokens = self._tokens
        signs: list[str] = []
        while tokens.mark in _SIGNS:
            self._count()
            signs.append(tokens.take())
        self._count()
        part = self._bracket() if tokens.mark == "(" else self._value()
        for sign in reversed(signs):
            if sign == "-":
                part = negation(part)
            elif sign == "NOT":
                part = negated(part)
        return part

    def _count(self) -> None:
        self._operands += 1
        if self._operands > MAX_OPERANDS:
            raise ExpressionError(f"the expression has more than {MAX_OPERANDS} operands (properties, literals, signs)")

    def _value(self) -> Part:
        tokens = self._tokens
        if tokens.mark in _NAMED:
            return _NAMED[tokens.take()]
        make = _LITERALS.get(tokens.kind)
        if make is None:
            raise tokens.unexpected("a property, a literal, NOT, +, - or (")
        return make(tokens.take())

    def _bracket(self) -> Part:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels")
        self._tokens.expect("(")
        inside = self.expression()
        self._tokens.expect(")")
        self._depth -= 1
        return inside

    def _string(self) -> str:
        if self._tokens.kind is not TokenKind.STRING:
            raise self._tokens.unexpected("a string in single quotes")
        return self._tokens.take()
