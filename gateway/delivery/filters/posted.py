"""The filters in requests: lite pulls, the pulls of DefaultMQPullConsumer, and pops."""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakValueDictionary

from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter, is_tag_type, tag_filter
from gateway.delivery.filters.sql92 import ExpressionError
from gateway.delivery.filters.subscribed import compiled
from gateway.delivery.filters.turns import FilterTurns
from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.errors import WireError
from wire.message.tags import parse_tag_expression

MAX_TAG_CHARACTERS = 65_536
"""The longest tag expression in a request: room for 2,000 tags. Upstream has no limit of its own."""
MAX_CACHED_CHARACTERS = 1_024
"""The longest tag expression that is remembered; longer ones are parsed unless a held request has the same."""


def posted_filter(expression: str, expression_type: str | None, turns: FilterTurns | None = None) -> MessageFilter:
    """Return the filter of an expression.

    :param turns: pays for an expression that has to be compiled.
    :raises RequestRefused: SUBSCRIPTION_PARSE_FAILED: the expression cannot be used.
    """
    try:
        if not is_tag_type(expression_type):
            return MessageFilter(None, compiled(expression_type, expression, turns))
        if len(expression) > MAX_TAG_CHARACTERS:
            raise ExpressionError(
                f"the tag expression has {len(expression)} characters, the limit is {MAX_TAG_CHARACTERS}"
            )
        return (_remembered if len(expression) <= MAX_CACHED_CHARACTERS else _shared)(expression)
    except (WireError, ExpressionError) as error:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from error


@lru_cache(maxsize=1024)
def _remembered(expression: str) -> MessageFilter:
    return _parsed(expression)


_in_use: WeakValueDictionary[str, MessageFilter] = WeakValueDictionary()


def _shared(expression: str) -> MessageFilter:
    """Return the filter of a long expression: the one that a held request uses, if there is any."""
    found = _in_use.get(expression)
    if found is None:
        found = _in_use[expression] = _parsed(expression)
    return found


def _parsed(expression: str) -> MessageFilter:
    accepts_code = tag_filter(expression, parse_tag_expression(expression).codes, class_filter_mode=False)
    return EVERYTHING if accepts_code is None else MessageFilter(accepts_code)
