"""The filter of a group's own retry topic: messages that the group gave back, and none that another group popped.

``%RETRY%shop_orders`` is the retry topic of the group ``shop_orders``, and the older topic in which messages of
``orders`` come again to who popped them for the group ``shop``. While the group ``shop_orders`` exists, nothing that
was popped is stored there (``is_of_another``); older messages stay. Upstream gives them to the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from gateway.delivery.filters.message_filter import MessageFilter
from gateway.delivery.filters.record_filter import PropertyCondition
from gateway.delivery.filters.sql92 import Sql92Filter
from wire.message.properties import PropertyName


def only_given_back(accepts: MessageFilter, poppers: frozenset[str] = frozenset()) -> MessageFilter:
    """Return a filter that lets nothing pass that came to the retry topic for a pop, except for pops of ``poppers``."""
    wanted = _with(poppers) if poppers else _GIVEN_BACK
    by_properties = wanted if accepts.by_properties is None else accepts.by_properties.joined(wanted)
    return MessageFilter(accepts.accepts_code, by_properties, accepts.accepts_extension)


def _was_given_back(properties: Mapping[str, str]) -> bool:
    """Return False for a message that came again to a pop: only what was given back names the topic it came from."""
    return PropertyName.FIRST_POP_TIME not in properties or PropertyName.RETRY_TOPIC in properties


def _may_pass(poppers: frozenset[str], properties: Mapping[str, str]) -> bool:
    return _was_given_back(properties) or properties.get(PropertyName.ORIGIN_GROUP) in poppers


def _with(poppers: frozenset[str]) -> Sql92Filter:
    names = (PropertyName.FIRST_POP_TIME, PropertyName.RETRY_TOPIC, PropertyName.ORIGIN_GROUP)
    return Sql92Filter([PropertyCondition(partial(_may_pass, poppers), names)])


_GIVEN_BACK: Final = Sql92Filter(
    [PropertyCondition(_was_given_back, (PropertyName.FIRST_POP_TIME, PropertyName.RETRY_TOPIC))]
)
