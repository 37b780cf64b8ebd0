"""The writer of consume queue units that a walk through the log collected; it also notices queues that miss units.

Queue offsets are dense, but the log may say otherwise: the topic was deleted and made again (offsets start at 0 again),
the queue lost files (a gap that the whole log fills), a damaged record is gone (a gap that stays), or a bit of the
offset itself flipped (one message out of line; the checksum covers bodies only).
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterable

from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.store.queues.proven_end import proven_end
from wire.disk.consume_queue import FILLER_SIZE, UNIT, UNIT_BYTES
from wire.disk.unit_collector import CollectedUnits, QueueName
from wire.message.batch import MIN_PART_BYTES

MAX_REMARKS = 20
"""The number of odd messages that are named one by one."""
MAX_OFFSET = (2**63 - 1) // UNIT_BYTES - 1
"""The last queue offset whose unit has a place that a file can have."""
_BRIDGE_UNITS = 50_000


class UnitWriter:
    """The writer of units that walks collected, in the order of the log.

    ``lost``: queues that miss units of messages before the walk. ``remarks``: messages that no queue can show.
    """

    def __init__(self, queues: ConsumeQueues) -> None:
        self._queues = queues
        self.lost: set[QueueName] = set()
        self.remarks: list[str] = []
        self.written = 0

    def write(self, collected: Iterable[CollectedUnits], *, from_begin: bool) -> None:
        """Write units after the existing units of the queues.

        :param from_begin: True if the walk started at the start of the log: a queue may then start at any offset, and
            messages missing in between are nowhere.
        :raises OSError: a queue cannot be written.
        """
        for found in collected:
            queue = self._queues.make(found.topic, found.queue_id)
            for number, (first, units) in enumerate(found.runs):
                following = found.runs[number + 1][0] if number + 1 < len(found.runs) else None
                if not self._write_run(queue, first, bytes(units), following, from_begin=from_begin):
                    self.lost.add((found.topic, found.queue_id))
                    break

    def keep_end(self, name: QueueName, listed_end: int, log_min: int) -> None:
        """Keep the end of a queue that lost files and has no message in the log: its offsets go on there.

        :param listed_end: the queue's end when it was last listed; 0 if it was not listed.
        :raises OSError: the queue cannot be written.
        """
        queue = self._queues.make(*name)
        queue.keep_below(proven_end(queue, log_min))
        if queue.max_offset >= listed_end:
            return
        if queue.starts:
            self._lead_over(queue, listed_end)
        else:
            self._queues.begin(queue, listed_end)

    def _write_run(
        self, queue: ConsumeQueue, first: int, units: bytes, following: int | None, *, from_begin: bool
    ) -> bool:
        expected = queue.max_offset
        if 0 <= first < expected and queue.covered_end() == -1:
            # Files without a unit do not show the offsets of the queue: the files before them are lost.
            if not from_begin:
                return False
            queue.clear()
            expected = 0
        if not 0 <= first <= MAX_OFFSET or (first != expected and _is_stray(first, len(units), expected, following)):
            self._pass_over(queue, first, units, f"the next one of the queue is {expected}")
            return True
        if first > expected and (expected > 0 or not from_begin):
            if not from_begin:
                return False
            if not self.lead_over(queue, first, UNIT.unpack_from(units)[0]):
                self._pass_over(queue, first, units, f"the queue ends at {expected} and so many were never stored")
                return True
        elif first < expected:
            if first > 0:
                self._pass_over(queue, first, units, f"the queue has other messages up to {expected}")
                return True
            queue.clear()  # the topic was deleted and made again: only the later messages count
        self._queues.write(queue, first, units)
        self.written += len(units) // UNIT_BYTES
        return True

    def lead_over(self, queue: ConsumeQueue, first: int, place: int) -> bool:
        """Lead over messages that are gone from the log; return False if the gap is larger than what can be gone there.

        The next message has the offset ``first``, and lies at ``place`` of the log.

        The new units lie where the last message ended: offsets in the log have to rise, and the units must not count as
        kept when everything before them is expired. The units have a size that no record has, so that readers pass over
        them, Apache RocketMQ's readers too.
        """
        expected, position = queue.max_offset, max(queue.covered_end(), 0)
        if (first - expected) * MIN_PART_BYTES > place - position:
            return False
        self._lead_over(queue, first)
        self._remark(f"{queue.topic}/{queue.queue_id}: messages {expected} to {first - 1} are not in the commit log")
        return True

    def _lead_over(self, queue: ConsumeQueue, end: int) -> None:
        bridge = UNIT.pack(max(queue.covered_end(), 0), FILLER_SIZE, 0)
        for offset in range(queue.max_offset, end, _BRIDGE_UNITS):
            self._queues.write(queue, offset, bridge * min(_BRIDGE_UNITS, end - offset))

    def _pass_over(self, queue: ConsumeQueue, first: int, units: bytes, why: str) -> None:
        count = len(units) // UNIT_BYTES
        self._remark(
            f"{queue.topic}/{queue.queue_id}: {count} messages from commit log offset {UNIT.unpack_from(units)[0]} on "
            f"say they are number {first} and following, but {why}; no queue shows them"
        )

    def _remark(self, text: str) -> None:
        if len(self.remarks) < MAX_REMARKS:
            self.remarks.append(text)


def _is_stray(first: int, size: int, expected: int, following: int | None) -> bool:
    """Return whether one message is out of line and the next message goes on as if it were not."""
    if size != UNIT_BYTES or following is None or following == first + 1:
        return False
    return following == expected + 1 or (expected == 0 and 0 < following < first)
