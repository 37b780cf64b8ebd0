"""The filters of retry topics that a group shares with the pops of other groups; every way of reading asks here.

``%RETRY%g_t`` is the retry topic of the group ``g_t``, and the older topic in which messages of ``t`` come again to the
pops of ``g``. Pops of ``a_b`` for ``g``, and of ``b`` for ``g_a``, share one, too.
"""

from __future__ import annotations

from gateway.access.needs import readable_poppers
from gateway.delivery.filters.given_back import only_given_back
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.turns import FilterTurns
from gateway.delivery.pop.receipts import RETRY_V1, is_of_another, pop_retry_topic
from gateway.delivery.retry import retry_topic
from gateway.metadata.groups import Groups
from gateway.remoting.dispatch import Request
from wire.message.properties import PropertyName
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX


def readable(request: Request, topic: str, group: str = "", accepts: MessageFilter = EVERYTHING) -> MessageFilter:
    """Return the filter of a request that names a topic: of a retry topic it reads nothing that belongs to others.

    A group gets what it gave back itself. Another group, or nobody's, gets also what was popped by groups with which
    the sender may consume.
    """
    if not topic.startswith(RETRY_TOPIC_PREFIX):
        return accepts
    if topic == retry_topic(group):
        return only_given_back(accepts)
    poppers = readable_poppers(request, topic)
    return accepts if poppers is None else only_given_back(accepts, poppers)


def popped_again(groups: Groups, turns: FilterTurns, topic: str, group: str, source: str) -> MessageFilter:
    """Return the filter of a topic to which a pop of ``topic`` leads: what was popped passed the filter of its pop.

    Before 5.5 a message that came again to a pop did not name the group.
    """
    if source != pop_retry_topic(topic, group, RETRY_V1):
        return EVERYTHING
    is_own = f"{PropertyName.ORIGIN_GROUP} = '{group}'"
    if is_of_another(groups, topic, group):
        return posted_filter(is_own, "SQL92", turns)
    if "_" not in group and "_" not in topic:
        return EVERYTHING
    return posted_filter(f"{is_own} OR {PropertyName.ORIGIN_GROUP} IS NULL", "SQL92", turns)
