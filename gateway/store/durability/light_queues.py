"""Light queues of the store: further queues that show a message (enableLmq and enableMultiDispatch).

The consume queues of light queues are ordinary files, and their units lead to the same records. Upstream:
``LmqDispatch`` and ``ConsumeQueue.multiDispatchLmqQueue``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.store.put_result import Places, PutOutcome
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.consume_queues import ConsumeQueues
from wire.message.light_queues import (
    LIGHT_QUEUE_ID,
    LIGHT_QUEUE_PREFIX,
    SEPARATOR,
    UNDISPATCHED_TOPICS,
    is_light_queue,
    wanted_queues,
)
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage
from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX


class LightQueues:
    """The part that gives messages their places in light queues.

    The work runs on the reactor's thread, where all queues get their offsets.

    :param most: the largest number of light queues.
    """

    def __init__(self, queues: ConsumeQueues, most: int) -> None:
        self._queues = queues
        self._most = most
        self._count = -1
        self._full_at = 0

    def place(self, message: OutgoingMessage, taken: dict[ConsumeQueue, int]) -> Places | None:
        """Write the offsets into a message that names light queues; return its places there.

        Return None if there would be too many light queues. A dead letter is in no light queue, as the original is in
        them already; the dead letter loses the original's offsets, which readers of the log would take for its own.
        Apache RocketMQ puts dead letters there, so readers of the log believe the offsets of one that has some.

        :param taken: the next offset of each queue in which neighbours of the same append took places; updated here.
        """
        if message.topic.startswith(DEAD_LETTER_TOPIC_PREFIX):
            _leave_out_offsets(message)
            return ()
        if message.topic.startswith(UNDISPATCHED_TOPICS):
            return ()
        places: dict[ConsumeQueue, int] = {}  # a message may name a queue twice
        offsets = []
        for name in wanted_queues(message.property_map):
            if not is_light_queue(name):
                offsets.append("")
                continue
            queue = self._queue(name)
            if queue is None:
                return None
            if queue not in places:
                places[queue] = offset = taken.get(queue, queue.next_offset)
                taken[queue] = offset + 1
            offsets.append(str(places[queue]))
        properties = {**message.property_map, PropertyName.INNER_MULTI_QUEUE_OFFSET: SEPARATOR.join(offsets)}
        message.properties = build_properties(properties)
        message.property_map = properties
        return tuple(places.items())

    def _queue(self, name: str) -> ConsumeQueue | None:
        queue = self._queues.find((name, LIGHT_QUEUE_ID))
        if queue is not None:
            return queue
        full = self._count >= self._most
        if self._count < 0 or (full and len(self._queues) < self._full_at):  # queues may have been deleted since
            self._count = sum(known.topic.startswith(LIGHT_QUEUE_PREFIX) for known in self._queues)
        if self._count >= self._most:
            self._full_at = len(self._queues)
            return None
        self._count += 1
        return self._queues.make(name, LIGHT_QUEUE_ID)


def _leave_out_offsets(message: OutgoingMessage) -> None:
    if PropertyName.INNER_MULTI_QUEUE_OFFSET in message.property_map:
        properties = dict(message.property_map)
        del properties[PropertyName.INNER_MULTI_QUEUE_OFFSET]
        message.properties = build_properties(properties)
        message.property_map = properties


@dataclass(slots=True)
class LightArrival:
    """A message that can now be read in a light queue, as the consumers that wait there see the message."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    message: OutgoingMessage

    def each(self) -> Iterable[LightArrival]:
        """Return ``self`` alone."""
        return (self,)


def light_arrivals(outcomes: Iterable[PutOutcome]) -> Iterator[LightArrival]:
    """Yield an arrival for each light queue in which these messages can now be read."""
    for outcome in outcomes:
        if outcome.further:
            for result in outcome.each():
                for queue, offset in result.further:
                    if queue is not result.queue:
                        yield LightArrival(queue.topic, queue.queue_id, offset, result.tags_code, result.message)
