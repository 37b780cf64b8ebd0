"""Whether a queue is still the one that was read, or of a topic that was deleted and made again in the same store.

A queue is known by its first message: where it begins and when that message was stored. Within one life of a queue
both only go forward together, as retention takes messages. So another first message at an offset that is no later than
before is the first message of another life. Every broker tells both. What is not noticed: another life whose first
messages are gone already, so that it begins later than the one before did.

A topic is deleted with all its queues. So before each batch one queue with news tells for all of its topic at a broker,
unless its first message is another one. All queues are looked at now and then: a quiet topic made again may be as long
as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Bounds
from gateway.spark.offsets import NOTHING_STORED, Checkpoint, Life, QueueNumbers

QUIET_LOOK_S: Final = 10.0
"""So often all queues are looked at, those without news, too."""


class Lives:
    """The checks of the first messages of a stream's queues.

    :param now: a clock that does not go back, seconds.
    """

    def __init__(self, bounds: Bounds, now: Callable[[], float]) -> None:
        self._bounds = bounds
        self._now = now
        self._quiet_at: float | None = None

    def look(
        self, start: Checkpoint, ends: QueueNumbers
    ) -> tuple[Mapping[MessageQueue, Life], frozenset[MessageQueue]]:
        """Return the lives of the queues, and the queues whose life differs from the one in the checkpoint.

        :param ends: the ends of the queues to check; other queues keep their known lives.
        """
        now = self._now()
        is_due = self._quiet_at is None or now - self._quiet_at >= QUIET_LOOK_S
        if is_due:
            self._quiet_at = now
        read_to = {**start.away, **start.offsets}
        looked_at = [queue for queue, end in ends.items() if is_due or read_to.get(queue) != end]
        known = [queue for queue in looked_at if queue in start.lives]
        if not is_due:
            known = self._doubtful(known, start.lives)
        first = self._first_stored(known)
        changed = [
            queue for queue, at_ms in first.items() if at_ms not in (NOTHING_STORED, start.lives[queue].stored_at_ms)
        ]
        unknown = [queue for queue in looked_at if queue not in start.lives and ends[queue]]
        if not changed and not unknown:
            return start.lives, frozenset()
        found = self.of(changed + unknown)
        others = frozenset(queue for queue in changed if found[queue].is_other_than(start.lives[queue]))
        return {**start.lives, **found}, others

    def _doubtful(self, queues: Sequence[MessageQueue], lives: Mapping[MessageQueue, Life]) -> list[MessageQueue]:
        """Those queues for which no other one of their topic at their broker tells that it is the one that was read."""
        witnesses = {_topic_at(queue): queue for queue in queues}
        first = self._first_stored(list(witnesses.values()))
        same = {_topic_at(queue) for queue, at_ms in first.items() if at_ms == lives[queue].stored_at_ms}
        return [queue for queue in queues if _topic_at(queue) not in same]

    def _first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return self._bounds.first_stored(queues) if queues else {}

    def of(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, Life]:
        """Ask where queues begin and, after that, when their first messages were stored.

        With this order, a queue that retention shortens meanwhile begins no earlier than its noted life says.
        """
        if not queues:
            return {}
        begins = self._bounds.begins(queues)
        stored = self._bounds.first_stored(queues)
        return {queue: Life(begins[queue], stored[queue]) for queue in queues}


def _topic_at(queue: MessageQueue) -> tuple[str, str]:
    return queue.topic, queue.broker_name
