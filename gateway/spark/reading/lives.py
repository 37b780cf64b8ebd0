"""The identity of queues: a topic that was deleted and made again in the same store has other queues than before.

A queue is known by its first message: the offset of that message and its store time. Within one life of a queue both
only go forward together, as retention takes messages. Another first message at an offset that is no later than before
is therefore the first message of another life. Every broker tells both numbers. One case is not noticed: another life
whose first messages are gone already, so that it begins later than the life before.

A topic is deleted with all its queues. Before each batch, therefore, one queue with new messages answers for all queues
of its topic at a broker, unless its first message has changed. All queues are looked at from time to time, because a
quiet topic that was made again may be as long as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Bounds
from gateway.spark.offsets import NOTHING_STORED, Checkpoint, Life, QueueNumbers

QUIET_LOOK_S: Final = 10.0
"""The seconds between two looks at all queues, queues without new messages included."""


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
        """Return the queues to ask: no other queue of their topic at their broker has proven their identity."""
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
