"""What a consumer wants of a topic: a tag expression or a SQL92 expression.

Tags are compared by hash at the broker and by text here, since two tags may have one hash. A SQL92 expression is
evaluated by the broker alone, which must have ``enablePropertyFilter=true``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.client.errors import ConfigurationError
from gateway.client.names import check_topic
from gateway.client.namespaces import RETRY_PREFIX
from wire.bodies.consume_kinds import EXPRESSION_TYPE_SQL92, EXPRESSION_TYPE_TAG
from wire.errors import BodyError
from wire.message.tags import MATCH_ALL, TagExpression, parse_tag_expression

if TYPE_CHECKING:
    from wire.bodies.subscriptions import SubscriptionData


def retry_topic(group: str) -> str:
    """The topic in which a group's failed messages come again."""
    return RETRY_PREFIX + group


@dataclass(frozen=True, slots=True)
class Sql:
    """A SQL92 expression where a subscription is given: ``{"orders": Sql("price > 5")}``.

    :param expression: a condition on properties of messages, evaluated by the broker.
    """

    expression: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic and which of its messages are wanted. Made by ``subscription_of``.

    :param version_ms: epoch milliseconds; of several subscriptions of a group the broker keeps the largest.
    """

    topic: str
    expression: str
    expression_type: str
    tags: frozenset[str]
    codes: frozenset[int]
    version_ms: int

    @property
    def takes_all(self) -> bool:
        """Whether nothing has to be compared here."""
        return self.expression == MATCH_ALL or self.expression_type != EXPRESSION_TYPE_TAG

    def accepts(self, tag: str | None) -> bool:
        """Whether a message with this tag is wanted; SQL92 was decided by the broker."""
        return self.takes_all or (tag is not None and tag in self.tags)

    def data(self) -> SubscriptionData:
        """As the heartbeat tells it."""
        from wire.bodies.subscriptions import SubscriptionData  # with the first heartbeat

        return SubscriptionData(
            self.topic, self.expression, self.tags, self.codes, self.version_ms, self.expression_type
        )


def tags_of(topic: str, expression: str | None = MATCH_ALL, *, version_ms: int) -> Subscription:
    """A subscription by tags: ``*`` for all, or ``A || B``.

    :raises MessageRefused: the topic is no name of one.
    :raises ConfigurationError: the expression is not text or holds separators only.
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
    """A subscription by a SQL92 expression over properties, as ``price > 5 AND area = 'hz'``.

    :raises MessageRefused: the topic is no name of one.
    :raises ConfigurationError: the expression is empty. Its grammar is checked by the broker at start.
    """
    check_topic(topic)
    if not isinstance(expression, str) or not expression.strip():
        raise ConfigurationError(f"the subscription of {topic}", expression, "a SQL92 expression")
    return Subscription(topic, expression, EXPRESSION_TYPE_SQL92, frozenset(), frozenset(), version_ms)


def subscription_of(topic: str, wanted: str | Sql | None, *, version_ms: int) -> Subscription:
    """The subscription an application writes as text (tags) or as ``Sql``; raises as the two above."""
    if isinstance(wanted, Sql):
        return sql_of(topic, wanted.expression, version_ms=version_ms)
    return tags_of(topic, wanted, version_ms=version_ms)
