"""The messages of a queue that are known to be on disk: with ASYNC_FLUSH fewer than readers see."""

from __future__ import annotations

from bisect import bisect_left

from gateway.store.queues.consume_queue import ConsumeQueue


def durable_max_offset(queue: ConsumeQueue, flushed: int) -> int:
    """Return the offset after the last message that lies wholly below a commit log offset."""
    span = range(queue.min_offset, queue.max_offset)

    def is_beyond(offset: int) -> bool:
        unit = queue.unit(offset)
        return unit is not None and unit[0] + unit[1] > flushed

    return queue.min_offset + bisect_left(span, True, key=is_beyond)
