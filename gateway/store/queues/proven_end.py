"""The least end of a queue whose messages are all deleted, as its files prove it."""

from __future__ import annotations

from bisect import bisect_left

from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.queue_file import lowest_behind
from wire.disk.consume_queue import UNIT_BYTES
from wire.message.batch import MIN_PART_BYTES


def proven_end(queue: ConsumeQueue, commit_log_min: int) -> int:
    """Return the least end of a queue: the offset after the deleted messages that its files still know without a doubt.

    If a file says nothing (a crash left it without its size), its name still does: all files before it were full.
    """
    if not queue.starts:
        return 0
    first = queue.starts[0] // UNIT_BYTES
    run = _intact_run(queue, commit_log_min)
    if run is None:
        return first if _may_be_deleted(first, commit_log_min) else 0
    return run.start + bisect_left(run, True, key=lambda offset: queue.stored_unit(offset)[0] >= commit_log_min)


def _may_be_deleted(count: int, commit_log_min: int) -> bool:
    """Return whether the deleted part of the log has room for this many messages."""
    return count * MIN_PART_BYTES <= commit_log_min


def _intact_run(queue: ConsumeQueue, commit_log_min: int) -> range | None:
    """Return the last units that follow each other, from the files that are in order from the first one on.

    Return None if no file is in order. Files before these units may be missing: a crash brings back any of the expired
    files whose names were not yet gone for good.
    """
    run, lowest = None, 0
    for start in queue.starts:
        size, found = queue.look_at(start, known=False)
        offset = start // UNIT_BYTES
        unit = queue.stored_unit(offset)
        position = unit[0]
        if size != queue.file_bytes or (found.units and run is not None and position < lowest):
            break
        if run is None or offset == run.stop:
            run = range(offset if run is None else run.start, offset + found.units)
        elif found.units and position < commit_log_min and _may_be_deleted(offset, commit_log_min):
            run = range(offset, offset + found.units)
        else:
            break
        lowest = lowest_behind(unit)
        if found.units * UNIT_BYTES < queue.file_bytes:
            break
    return run
