"""Where a pop takes messages from: whether its group may, and in which order queues and retry topics are looked at.

Upstream: ``PopMessageProcessor``. Now and then the group's retry topic first, then the topic's queues from a random one
on, then the retry topic. In topics of type PRIORITY (5.5) queues are priorities: the most urgent one comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gateway.delivery.pop.receipts import NORMAL, RETRY_V1, RETRY_V2, pop_retry_topic
from gateway.errors import RequestRefused
from gateway.metadata.attributes import has_batch_queues, priority_factor
from gateway.metadata.message_types import PRIORITY, type_of_topic
from gateway.metadata.names import topic_name_fault
from wire.codes import ResponseCode
from wire.message.flags import Permission

if TYPE_CHECKING:
    from gateway.metadata.groups import Groups
    from gateway.metadata.topics import Topics
    from gateway.settings import Settings
    from wire.bodies.topics import TopicConfig
    from wire.headers.pop import PopMessageRequest


class Source(NamedTuple):
    """A queue to pop from."""

    topic: str
    queue_id: int
    retry: str


class SourceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the order.

    ``retry_probability``: of 100 pops so many look into the retry topic first; ``priority_retry_probability`` where
    queues are priorities, of which the highest number comes first (``highest_first``) or 0.
    """

    retry_probability: int
    priority_retry_probability: int
    highest_first: bool
    retry_v2: bool
    retry_v1_too: bool

    @classmethod
    def from_settings(cls, settings: Settings) -> SourceOrder:
        """The order that the settings ask for."""
        return cls(
            retry_probability=settings.pop_from_retry_probability,
            priority_retry_probability=settings.pop_from_retry_probability_for_priority,
            highest_first=settings.priority_order_asc,
            retry_v2=settings.enable_retry_topic_v2,
            retry_v1_too=settings.retrieve_message_from_pop_retry_topic_v1,
        )


class PopSources:
    """The order for each pop.

    :param random_below: a number below another.
    """

    def __init__(self, topics: Topics, groups: Groups, order: SourceOrder, random_below: Callable[[int], int]) -> None:
        self._topics = topics
        self._groups = groups
        self.order = order
        self._random_below = random_below

    def of(self, header: PopMessageRequest) -> Iterator[Source]:
        """Where messages are looked for, in this order."""
        order, chance = self.order, self._random_below(100)
        config = self._topics.get(header.topic)
        by_priority = config is not None and self._is_by_priority(config, header, chance)
        retries = [] if header.order else list(self._retries(header.topic, header.consumer_group, chance))
        if chance < (order.priority_retry_probability if by_priority else order.retry_probability):
            yield from retries
            retries = []
        if header.queue_id >= 0:
            yield Source(header.topic, header.queue_id, NORMAL)
        else:
            count = 0 if config is None else config.read_queue_nums
            for number in range(count):
                if not by_priority:
                    queue_id = (chance + number) % count
                else:
                    queue_id = count - 1 - number if order.highest_first else number
                yield Source(header.topic, queue_id, NORMAL)
        yield from retries

    def _is_by_priority(self, config: TopicConfig, header: PopMessageRequest, chance: int) -> bool:
        """Whether the most urgent queue comes first; a group's factor lets the others have their turn too."""
        if header.order or type_of_topic(config.attributes) != PRIORITY:
            return False
        group = self._groups.get(header.consumer_group)
        return chance < priority_factor({} if group is None else group.attributes)

    def _retries(self, topic: str, group: str, chance: int) -> Iterator[Source]:
        order = self.order
        forms = [RETRY_V2 if order.retry_v2 else RETRY_V1]
        if order.retry_v2 and order.retry_v1_too:
            forms.insert(chance % 2, RETRY_V1)
        for form in forms:
            name = pop_retry_topic(topic, group, form)
            config = self._topics.get(name)
            for queue_id in range(0 if config is None else config.read_queue_nums):
                yield Source(name, queue_id, form)


def check_pop_place(
    topics: Topics, groups: Groups, broker_permission: int, topic: str, queue_id: int, group: str
) -> TopicConfig:
    """Let a group and the queue it wants to pop from pass.

    :raises RequestRefused: with upstream's code for the first check that fails.
    """
    if not broker_permission & Permission.READ:
        raise RequestRefused(ResponseCode.NO_PERMISSION, "the broker gives out no messages (brokerPermission)")
    config = topics.get(topic)
    if config is None:
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
    if not config.perm & Permission.READ:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden")
    if queue_id >= config.read_queue_nums:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic[{topic}] has readQueueNums[{config.read_queue_nums}]",
        )
    if has_batch_queues(config.attributes):
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, f"topic[{topic}] has batch queues (queue.type=BatchCQ): pull, do not pop"
        )
    known = groups.find(group)
    if known is None:
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist")
    if not known.consume_enable:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
    if not groups.may_read(group, topic):
        raise RequestRefused(
            ResponseCode.NO_PERMISSION, f"the consumer group[{group}] is forbidden to read topic[{topic}]"
        )
    fault = topic_name_fault(pop_retry_topic(topic, group, RETRY_V1))
    if fault is not None:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, f"messages of this topic could not come again to this group: {fault}"
        )
    return config
