"""The filters that requests carry themselves: lite pulls, the pulls of DefaultMQPullConsumer, and pops."""

from __future__ import annotations

from functools import lru_cache

from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.sql92 import ExpressionError
from gateway.delivery.filters.subscribed import compiled
from gateway.delivery.filters.tags import is_tag_type, tag_filter
from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.errors import WireError
from wire.message.tags import TagExpression, parse_tag_expression


def posted_filter(expression: str, expression_type: str | None) -> MessageFilter:
    """The filter of an expression.

    :raises RequestRefused: SUBSCRIPTION_PARSE_FAILED: it cannot be used.
    """
    try:
        if not is_tag_type(expression_type):
            return MessageFilter(None, compiled(expression_type, expression))
        parsed = _parsed_expression(expression)
    except (WireError, ExpressionError) as error:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from error
    accepts_code = tag_filter(expression, parsed.codes, class_filter_mode=False)
    return EVERYTHING if accepts_code is None else MessageFilter(accepts_code)


@lru_cache(maxsize=1024)
def _parsed_expression(expression: str) -> TagExpression:
    return parse_tag_expression(expression)
