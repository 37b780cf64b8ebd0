"""The subscriptions of consumers, as clients report them."""

from __future__ import annotations

from wire.bodies.subscriptions import SubscriptionData
from wire.message.tags import parse_tag_expression


def subscription(topic: str, sub_version: int = 1, expression: str = "*") -> SubscriptionData:
    """A subscription by tags, ``*`` for every message."""
    wanted = parse_tag_expression(expression)
    return SubscriptionData(topic, expression, wanted.tags, wanted.codes, sub_version)
