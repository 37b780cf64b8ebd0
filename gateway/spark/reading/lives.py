"""Whether a queue is still the one that was read, or of a topic that was deleted and made again in the same store.

A queue is known by its first message: where it begins and when that message was stored. Within one life of a queue
both only go forward together, as retention takes messages. So another first message at an offset that is no later than
before is the first message of another life. Every broker tells both. What is not noticed: another life whose first
messages are gone already, so that it begins later than the one before did.

A queue with news is looked at before each batch, a quiet one now and then: a topic made again may be as long as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Bounds
from gateway.spark.offsets import NOTHING_STORED, Checkpoint, Life, QueueNumbers

QUIET_LOOK_S: Final = 10.0
"""So often queues without news are looked at."""


class Lives:
    """Looks at the first messages of the queues of a stream.

    :param now: a clock that does not go back, seconds.
    """

    def __init__(self, bounds: Bounds, now: Callable[[], float]) -> None:
        self._bounds = bounds
        self._now = now
        self._quiet_at: float | None = None

    def look(
        self, start: Checkpoint, ends: QueueNumbers
    ) -> tuple[Mapping[MessageQueue, Life], frozenset[MessageQueue]]:
        """The lives of queues, and those that have another one than a checkpoint knows.

        :param ends: where queues end; the others are not looked at and keep what is known of them.
        """
        now = self._now()
        is_due = self._quiet_at is None or now - self._quiet_at >= QUIET_LOOK_S
        if is_due:
            self._quiet_at = now
        read_to = {**start.away, **start.offsets}
        asked = [queue for queue, end in ends.items() if is_due or read_to.get(queue) != end]
        known = [queue for queue in asked if queue in start.lives]
        first = self._bounds.first_stored(known) if known else {}
        changed = [
            queue for queue, at_ms in first.items() if at_ms not in (NOTHING_STORED, start.lives[queue].stored_at_ms)
        ]
        unknown = [queue for queue in asked if queue not in start.lives and ends[queue]]
        if not changed and not unknown:
            return start.lives, frozenset()
        found = self.of(changed + unknown)
        others = frozenset(queue for queue in changed if found[queue].is_other_than(start.lives[queue]))
        return {**start.lives, **found}, others

    def of(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, Life]:
        """Where queues begin and, asked after that, when their first messages were stored.

        In this order a queue that retention shortens meanwhile begins no earlier than it is said to.
        """
        if not queues:
            return {}
        begins = self._bounds.begins(queues)
        stored = self._bounds.first_stored(queues)
        return {queue: Life(begins[queue], stored[queue]) for queue in queues}
