"""The queues whose last messages a start hides, and the steps in which these are shown.

Which messages end where in the log is read once, at the start. From then on everything is in memory: a step costs as
much as the queues cost that it touches, and waits for no disk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from gateway.store.queues.consume_queue import ConsumeQueue

MAX_STEPS = 100_000
"""The steps of all queues together; a queue with more messages than its share shows several in one step."""
STEPS_AT_ONCE = 500
"""The steps of one call of ``show``: a few milliseconds, with those who wait for these messages."""


class ShownQueue(NamedTuple):
    """A queue of which messages are shown now: the offset of the first of them, and the offset after the last."""

    topic: str
    queue_id: int
    first: int
    end: int


class HiddenQueues:
    """The ends of queues as readers see them, and what is still to be shown; blocks when it is made.

    :param place: the log offset from which on messages are hidden.
    :ivar ends: the offset after the last message that is shown, for queues of which some are hidden.
    :ivar shown_end: the log offset below which everything is shown.
    """

    def __init__(self, queues: Iterable[ConsumeQueue], place: int) -> None:
        self.ends: dict[ConsumeQueue, int] = {}
        self.shown_end = place
        self._next = 0
        for queue in queues:
            if queue.max_offset and queue.covered_end() > place:
                offsets = range(queue.min_offset, queue.max_offset)
                self.ends[queue] = offsets.start + bisect_right(offsets, place, key=partial(_end_of, queue))
        places, ends, steps = array("q"), array("q"), []
        share = max(MAX_STEPS // max(len(self.ends), 1), 1)
        for queue, first in self.ends.items():
            size = -(-(queue.max_offset - first) // share)
            for end in range(first + size, queue.max_offset + size, size) if size else ():
                shown = min(end, queue.max_offset)
                places.append(_end_of(queue, shown - 1))
                ends.append(shown)
                steps.append(queue)
        order = sorted(range(len(places)), key=places.__getitem__)
        self._places = array("q", [places[index] for index in order])
        self._ends = array("q", [ends[index] for index in order])
        self._queues = [steps[index] for index in order]

    def show(self, place: int | None) -> list[ShownQueue]:
        """Show the next messages that end at or before a place of the log (None: anywhere), of a limited number.

        Return the queues with messages that are shown now; no queue if there are none left to show.
        """
        places, start = self._places, self._next
        end = len(places) if place is None else bisect_right(places, place, lo=start)
        last = min(start + STEPS_AT_ONCE, end)
        while start < last < end and places[last] == places[last - 1]:
            last += 1  # a message of several queues is shown in all of them
        touched: dict[ConsumeQueue, int] = {}
        for queue, shown in zip(self._queues[start:last], self._ends[start:last], strict=True):
            touched.setdefault(queue, self.ends[queue])
            self.ends[queue] = max(self.ends[queue], shown)
        if last > start:
            self.shown_end = max(self.shown_end, places[last - 1])
        self._next = last
        return [ShownQueue(queue.topic, queue.queue_id, first, self.ends[queue]) for queue, first in touched.items()]

    @property
    def is_done(self) -> bool:
        """True if no message is hidden any more."""
        return self._next == len(self._places)


def _end_of(queue: ConsumeQueue, offset: int) -> int:
    unit = queue.unit(offset)
    return -1 if unit is None else unit[0] + unit[1]
