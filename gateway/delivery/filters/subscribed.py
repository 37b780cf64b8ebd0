"""The SQL92 filters of consumer groups, compiled from heartbeats and used by pulls.

A group's filter belongs to the version of the subscription it came with. A pull that names a newer version than the
compiled one is refused with the reason. Nothing is lost when an entry is dropped, since its subscription stays with the
group. Upstream: ``ConsumerFilterManager``; the part that it saves is in ``group_bits``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.delivery.filters.group_bits import GroupBitMaps
from gateway.delivery.filters.message_filter import is_tag_type
from gateway.delivery.filters.sql92 import EXPRESSION_TYPE_SQL92, ExpressionError, Sql92Filter, sql92_filter
from gateway.delivery.filters.sql92_grammar import MAX_EXPRESSION_CHARACTERS
from gateway.delivery.filters.sql92_tree import MAX_SHOWN_CHARACTERS, shown
from gateway.delivery.filters.turns import FilterTurns
from gateway.errors import RequestRefused
from gateway.store.queues.extended_units import AcceptsExtension
from gateway.telemetry.logs import EventLog
from wire.bodies.subscriptions import SubscriptionData
from wire.codes import ResponseCode

log = EventLog("filters")

MAX_SUBSCRIBED_FILTERS = 10_000
"""The number of group filters that are kept; beyond it the oldest is dropped, and the next pull compiles it again."""
MAX_SUBSCRIBED_CHARACTERS = 1_048_576
"""The characters of all kept expressions: 100 for each filter. A compiled one takes up to 150 bytes a character."""
MAX_HEARTBEAT_CHARACTERS = 32_768
"""The characters of new expressions compiled for one heartbeat, over all its groups.

The first pull compiles further expressions. 100 expressions of 300 characters are compiled at once.
"""
LEAST_CHARACTERS = 100
"""The least number of characters that an expression counts."""


def compiled(expression_type: str | None, expression: str | None, turns: FilterTurns | None = None) -> Sql92Filter:
    """Return the filter of an expression that does not name tags.

    :param turns: pays for an expression that has to be compiled.
    :raises ExpressionError: there is no such type, or the expression is not of this type.
    """
    if expression_type != EXPRESSION_TYPE_SQL92:
        raise ExpressionError(f"there are no expressions of type {shown(str(expression_type))}, only TAG and SQL92")
    if not expression:
        raise ExpressionError(f"Expression can't be null! {expression_type}")
    return sql92_filter(expression, turns)


def check_expression_type(expression_type: str | None) -> None:
    """Let only tag expressions pass, because ``enablePropertyFilter`` is off.

    :raises RequestRefused: SYSTEM_ERROR: an expression of another type.
    """
    if not is_tag_type(expression_type):
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by "
            f"{shown(str(expression_type))} (enablePropertyFilter=false)",
        )


Expression = tuple[str | None, str]
"""An expression's type and text."""


@dataclass(slots=True)
class _Subscribed:
    """The last expression that could be compiled, and a later one that could not."""

    expression: Expression | None = None
    version: int = -1
    accepts: Sql92Filter | None = None
    refused: Expression | None = None
    refusal: str = ""
    characters: int = 0
    """The characters at the last count."""

    def count_characters(self) -> int:
        """Count the characters of both expressions; return how many are new."""
        before = self.characters
        self.characters = sum(
            max(len(each[1]), LEAST_CHARACTERS) for each in (self.expression, self.refused) if each is not None
        )
        return self.characters - before


class SubscribedFilters:
    """The filters by group and topic.

    :param bit_maps: gets every expression in use, if bit maps are made (``enableCalcFilterBitMap``).
    :param turns: pays for compiling.
    :param limit: how many filters are kept.
    :param characters: the characters of all kept expressions.
    """

    def __init__(
        self,
        bit_maps: GroupBitMaps | None = None,
        turns: FilterTurns | None = None,
        *,
        limit: int = MAX_SUBSCRIBED_FILTERS,
        characters: int = MAX_SUBSCRIBED_CHARACTERS,
    ) -> None:
        self._bit_maps = bit_maps
        self._turns = turns
        self._limit = limit
        self._characters = characters
        self._held = 0
        self._filters: dict[tuple[str, str], _Subscribed] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def register(
        self, group: str, subscriptions: Iterable[SubscriptionData], left: int = MAX_HEARTBEAT_CHARACTERS
    ) -> int:
        """Compile the expressions of a heartbeat; a wrong expression is logged, and reported to pulls that use it.

        :param left: characters that may still be compiled for this heartbeat.
        :returns: how many characters are left.
        """
        for subscription in subscriptions:
            if is_tag_type(subscription.expression_type):
                continue
            if not self._is_known(group, subscription):
                left -= max(len(subscription.sub_string), LEAST_CHARACTERS)
                if left < 0 or (self._turns is not None and self._turns.is_busy):
                    return 0
            self._subscribed(group, subscription)
        return left

    def find(self, group: str, subscription: SubscriptionData, asked_version: int) -> Sql92Filter:
        """Return the filter for a pull that knows the subscription's version ``asked_version`` (ms).

        :raises RequestRefused: FILTER_DATA_NOT_EXIST if no expression of the group could be compiled,
            FILTER_DATA_NOT_LATEST if only an older one could.
        """
        known = self._subscribed(group, subscription)
        if known.accepts is None:
            raise RequestRefused(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"the consumer's filter data not exist: {group} subscribes to {subscription.topic} with an expression "
                f"that cannot be used: {known.refusal}",
            )
        if known.version < asked_version:
            raise RequestRefused(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                f"the consumer's filter data not latest: the newest expression of {group} for {subscription.topic} "
                f"cannot be used: {known.refusal}",
            )
        return known.accepts

    def by_bit_map(self, group: str, topic: str) -> AcceptsExtension | None:
        """Return a function that excludes messages by stored bit maps, for the filter of ``find``, or None."""
        known = self._filters.get((group, topic))
        if self._bit_maps is None or known is None or known.expression is None:
            return None
        return self._bit_maps.accepts(group, topic, known.expression[1])

    def _is_known(self, group: str, subscription: SubscriptionData) -> bool:
        """Return whether the expression was compiled, or refused, the last time."""
        known = self._filters.get((group, subscription.topic))
        return known is not None and _expression(subscription) in (known.expression, known.refused)

    def _subscribed(self, group: str, subscription: SubscriptionData) -> _Subscribed:
        """Return the entry of a subscription; compile its expression unless it was compiled the last time.

        The text decides, not the version: a group that comes back may have a clock that was set back.
        """
        key = group, subscription.topic
        known = self._filters.get(key)
        if known is None:
            known = self._filters[key] = _Subscribed()
        expression = _expression(subscription)
        if expression not in (known.expression, known.refused):
            self._compile(known, expression, group, subscription)
        elif expression == known.expression:
            known.version = subscription.sub_version
            if self._bit_maps is not None and known.accepts is not None:
                self._bit_maps.remember(group, subscription, known.accepts)
        return known

    def _compile(self, known: _Subscribed, expression: Expression, group: str, subscription: SubscriptionData) -> None:
        try:
            known.accepts = compiled(subscription.expression_type, subscription.sub_string, self._turns)
        except ExpressionError as error:
            known.refused, known.refusal = expression, str(error)
            log.warning("filter expression refused", group=group, topic=subscription.topic, reason=known.refusal)
        else:
            known.expression, known.version = expression, subscription.sub_version
            known.refused = None
            if self._bit_maps is not None:
                self._bit_maps.register(group, subscription, known.accepts)
        self._held += known.count_characters()
        self._drop_oldest(known)

    def _drop_oldest(self, kept: _Subscribed) -> None:
        """Keep within the limits; a pull with a dropped expression compiles it again."""
        while len(self._filters) > self._limit or self._held > self._characters:
            key = next(iter(self._filters))
            oldest = self._filters.pop(key)
            if oldest is kept:
                self._filters[key] = oldest
                if len(self._filters) == 1:
                    return
            else:
                self._held -= oldest.characters


def _expression(subscription: SubscriptionData) -> Expression:
    """Return type and text; for a text that is too long to use or keep, a mark instead."""
    text = subscription.sub_string
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        text = f"{len(text)} characters {hash(text)}"
    return subscription.expression_type[:MAX_SHOWN_CHARACTERS], text
