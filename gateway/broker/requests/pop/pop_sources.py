"""The sources of a pop: whether its group may pop, and in which order queues and retry topics are looked at.

Upstream: ``PopMessageProcessor``. Now and then a pop looks first at the group's retry topic; otherwise the retry topic
comes last. The topic's queues are looked at from a random one on. In topics of type PRIORITY (5.5) queues are
priorities, and the most urgent queue comes first. In topics with very many queues the broker skips queues that are
known to be at their end, which changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from gateway.broker.desk import Desk
from gateway.delivery.pop.receipts import NORMAL, RETRY_V1, RETRY_V2, pop_retry_topic
from gateway.errors import RequestRefused
from gateway.metadata.attributes import has_batch_queues, priority_factor
from gateway.metadata.groups import Groups
from gateway.metadata.message_types import PRIORITY, type_of_topic
from gateway.metadata.names import topic_name_fault
from gateway.metadata.topics import Topics
from gateway.metadata.unread_queues import NARROW, Unread, UnreadQueues, marked, marked_downwards
from gateway.settings.pop import PopSettings
from wire.bodies.topics import TopicConfig
from wire.codes import ResponseCode
from wire.headers.pop import PopMessageRequest
from wire.message.flags import Permission


class Source(NamedTuple):
    """A queue to pop from; ``unread`` has the queue's mark if only queues with a mark are looked at."""

    topic: str
    queue_id: int
    retry: str
    unread: Unread | None = None


Watched = list[tuple[Unread, int]]
"""The marks that a pop goes by, each with its number of changes before the pop."""


class Place(NamedTuple):
    """A topic, or a retry topic, to pop from, with the number of its queues."""

    topic: str
    retry: str
    queues: int


def has_changed(watched: Watched) -> bool:
    """Return whether a queue may have got messages since a look found none in it."""
    return any(unread.changes != changes for unread, changes in watched)


def is_wide(places: Iterable[Place]) -> bool:
    """Return whether there are so many queues that a pop does not look at all of them each time."""
    return any(place.queues > NARROW for place in places)


def places_of(topics: Topics, topic: str, group: str, forms: Iterable[str]) -> list[Place]:
    """Return the existing places of a topic for a group, in order of ``forms``.

    NORMAL is the topic itself; the other forms are the group's retry topics.
    """
    found: list[Place] = []
    for form in forms:
        name = topic if form == NORMAL else pop_retry_topic(topic, group, form)
        config = topics.get(name)
        if config is not None:
            found.append(Place(name, form, config.read_queue_nums))
    return found


class PopSources:
    """The order of the sources for each pop.

    :param random_below: returns a random number below its argument.
    """

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        settings: PopSettings,
        random_below: Callable[[int], int],
        unread: UnreadQueues,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._settings = settings
        self._random_below = random_below
        self._unread = unread

    def of(self, header: PopMessageRequest, watched: Watched) -> Iterator[Source]:
        """Yield the queues in which a pop looks for messages, in order; ``watched`` gets the marks that are used."""
        settings, chance = self._settings, self._random_below(100)
        config = self._topics.get(header.topic)
        by_priority = config is not None and self._is_by_priority(config, header, chance)
        retries = [] if header.order else self._retries(header.topic, header.consumer_group, chance)
        place = Place(header.topic, NORMAL, 0 if config is None else config.read_queue_nums)
        wide = (header.queue_id < 0 and place.queues > NARROW) or (bool(retries) and is_wide(retries))
        of_priority, of_others = settings.pop_from_retry_probability_for_priority, settings.pop_from_retry_probability
        if chance < (of_priority if by_priority else of_others):
            for retry in retries:
                yield from self._within(retry, header.consumer_group, watched if wide else None)
            retries = []
        if header.queue_id >= 0:
            unread = self._watch(place, header.consumer_group, watched) if wide else None
            yield Source(header.topic, header.queue_id, NORMAL, unread)
        elif by_priority:
            yield from self._within(
                place, header.consumer_group, watched if wide else None, down=settings.priority_order_asc
            )
        else:
            yield from self._within(place, header.consumer_group, watched if wide else None, first=chance)
        for retry in retries:
            yield from self._within(retry, header.consumer_group, watched if wide else None)

    def are_many(self, header: PopMessageRequest) -> bool:
        """Return whether a pop may have to look at very many queues."""
        forms = [NORMAL] if header.queue_id < 0 else []
        if not header.order:
            forms += (RETRY_V1, RETRY_V2)
        return is_wide(places_of(self._topics, header.topic, header.consumer_group, forms))

    def _is_by_priority(self, config: TopicConfig, header: PopMessageRequest, chance: int) -> bool:
        """Return whether the most urgent queue comes first.

        A group's factor lets other queues come first now and then.
        """
        if header.order or type_of_topic(config.attributes) != PRIORITY:
            return False
        group = self._groups.get(header.consumer_group)
        return chance < priority_factor({} if group is None else group.attributes)

    def _retries(self, topic: str, group: str, chance: int) -> list[Place]:
        settings = self._settings
        forms = [RETRY_V2]
        if not settings.enable_retry_topic_v2:
            forms.insert(0, RETRY_V1)
        elif settings.retrieve_message_from_pop_retry_topic_v1:
            forms.insert(chance % 2, RETRY_V1)
        return places_of(self._topics, topic, group, forms)

    def _within(
        self, place: Place, group: str, watched: Watched | None, first: int = 0, *, down: bool = False
    ) -> Iterator[Source]:
        """Yield the queues of a topic from ``first`` on, or downwards from the last.

        With ``watched`` only queues with a mark are yielded.
        """
        topic, retry, count = place
        first = first % count if count else 0
        if watched is None:
            numbers = range(count - 1, -1, -1) if down else chain(range(first, count), range(first))
            for queue_id in numbers:
                yield Source(topic, queue_id, retry)
            return
        unread = self._watch(place, group, watched)
        marks = unread.to_pop
        for queue_id in marked_downwards(marks) if down else chain(marked(marks, first), marked(marks, 0, first)):
            yield Source(topic, queue_id, retry, unread)

    def _watch(self, place: Place, group: str, watched: Watched) -> Unread:
        unread = self._unread.of(place.topic, group, place.queues)
        watched.append((unread, unread.changes))
        return unread


def check_pop_place(desk: Desk, topic: str, queue_id: int, group: str) -> TopicConfig:
    """Refuse a group that may not pop, or a queue from which it may not pop.

    :return: the topic's configuration.
    :raises RequestRefused: with upstream's code for the first check that fails.
    """
    if not desk.settings.broker_permission & Permission.READ:
        raise RequestRefused(ResponseCode.NO_PERMISSION, "the broker gives out no messages (brokerPermission)")
    config = desk.topics.get(topic)
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
    known = desk.groups.find(group)
    if known is None:
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist")
    if not known.consume_enable:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
    if not desk.groups.may_read(group, topic):
        raise RequestRefused(
            ResponseCode.NO_PERMISSION, f"the consumer group[{group}] is forbidden to read topic[{topic}]"
        )
    fault = topic_name_fault(pop_retry_topic(topic, group, RETRY_V1))
    if fault is not None:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, f"messages of this topic could not come again to this group: {fault}"
        )
    return config
