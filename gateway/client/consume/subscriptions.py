"""A consumer's choice of messages in a topic: a tag expression or a SQL92 expression.

The broker compares hashes of tags, and the client compares their text, because two tags may have the same hash. Only
the broker evaluates a SQL92 expression, and needs ``enablePropertyFilter=true`` for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.client.errors import ConfigurationError
from gateway.client.names import check_topic
from wire.bodies.consume_kinds import EXPRESSION_TYPE_SQL92, EXPRESSION_TYPE_TAG
from wire.errors import BodyError
from wire.message.tags import MATCH_ALL, TagExpression, parse_tag_expression
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

if TYPE_CHECKING:
    from wire.bodies.subscriptions import SubscriptionData


def retry_topic(group: str) -> str:
    """Return the name of the topic in which a group's failed messages come again."""
    return RETRY_TOPIC_PREFIX + group


@dataclass(frozen=True, slots=True)
class Sql:
    """A SQL92 expression in place of tags in a subscription: ``{"orders": Sql("price > 5")}``.

    :param expression: a condition on properties of messages, evaluated by the broker.
    """

    expression: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and the choice of its messages; made by ``subscription_of``.

    :param version_ms: epoch milliseconds; the broker keeps the subscription of a group with the largest version.
    """

    topic: str
    expression: str
    expression_type: str
    tags: frozenset[str]
    codes: frozenset[int]
    version_ms: int

    @property
    def takes_all(self) -> bool:
        """True if the client need not compare tags."""
        return self.expression == MATCH_ALL or self.expression_type != EXPRESSION_TYPE_TAG

    def accepts(self, tag: str | None) -> bool:
        """Return whether a message with this tag is wanted; always True for SQL92, which the broker has evaluated."""
        return self.takes_all or (tag is not None and tag in self.tags)

    def data(self) -> SubscriptionData:
        """Return the subscription in the form of a heartbeat."""
        from wire.bodies.subscriptions import SubscriptionData  # with the first heartbeat

        return SubscriptionData(
            self.topic, self.expression, self.tags, self.codes, self.version_ms, self.expression_type
        )


def tags_of(topic: str, expression: str | None = MATCH_ALL, *, version_ms: int) -> Subscription:
    """Return a subscription by tags: ``*`` for all messages, or ``A || B``.

    :raises MessageRefused: the topic's name is refused.
    :raises ConfigurationError: the expression is not text, or has only separators.
    """
    check_topic(topic)
    if expression is not None and not isinstance(expression, str):
        raise ConfigurationError(f"the subscription of {topic}", expression, "text")
    try:
        parsed: TagExpression = parse_tag_expression(expression)
    except BodyError as error:
        raise ConfigurationError(
            f"the subscription of {topic}", expression, "tags as 'A || B', or '*' for all"
        ) from error
    text = MATCH_ALL if parsed.match_all or expression is None else expression
    return Subscription(topic, text, EXPRESSION_TYPE_TAG, parsed.tags, parsed.codes, version_ms)


def sql_of(topic: str, expression: str, *, version_ms: int) -> Subscription:
    """Return a subscription by a SQL92 expression on properties, such as ``price > 5 AND area = 'hz'``.

    :raises MessageRefused: the topic's name is refused.
    :raises ConfigurationError: the expression is empty. The broker checks the grammar when the consumer starts.
    """
    check_topic(topic)
    if not isinstance(expression, str) or not expression.strip():
        raise ConfigurationError(f"the subscription of {topic}", expression, "a SQL92 expression")
    return Subscription(topic, expression, EXPRESSION_TYPE_SQL92, frozenset(), frozenset(), version_ms)


def subscription_of(topic: str, wanted: str | Sql | None, *, version_ms: int) -> Subscription:
    """Return the subscription that an application writes as text (tags) or as ``Sql``.

    :raises MessageRefused, ConfigurationError: as ``tags_of`` and ``sql_of`` raise them.
    """
    if isinstance(wanted, Sql):
        return sql_of(topic, wanted.expression, version_ms=version_ms)
    return tags_of(topic, wanted, version_ms=version_ms)
