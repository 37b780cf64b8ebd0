"""The repair of damaged consume queue units in place, from the log: for queues of which no message may be passed over.

A unit counts as damaged if it does not lead to the record of its own queue offset. The log between the intact units
around it is read, and the right units are written over the wrong ones. Ends and other units stay, so a kill in the
middle leaves old or right units. Consumers' queues are not mended while the store is open: consumers get the damage as
an answer (``read_check``), and ``store repair`` mends their queues.
"""

from __future__ import annotations

from gateway.store.disk.paths import StorePaths
from gateway.store.durability.dispatch import SCHEDULE_TOPIC, UnitDispatch
from gateway.store.errors import LogDamaged
from gateway.store.log.commit_log import CommitLog
from gateway.store.log.log_walk import LogWalk
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.store.queues.deleted_topics import DeletedTopics
from gateway.store.reading.read_check import is_message_of
from gateway.telemetry.logs import EventLog
from wire.disk.consume_queue import FILLER_SIZE, UNIT_BYTES
from wire.disk.unit_collector import UnitCollector
from wire.errors import RecordError
from wire.message.record import parse_record

log = EventLog("store")


class QueueMending:
    """The repair of one open store's queues; blocks, one caller at a time for each queue."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        dispatch: UnitDispatch,
        deleted: DeletedTopics,
        paths: StorePaths,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._dispatch = dispatch
        self._deleted = deleted
        self._root = paths.root

    def mend(self, topic: str, queue_id: int, offset: int, count: int) -> int:
        """Write the wrong units among the ``count`` units from ``offset`` on again.

        :returns: how many of these units stand for messages that the log does not have (units that lead over a gap).
        :raises LogDamaged: the log cannot be read where the records have to be.
        :raises OSError: the disk failed.
        """
        queue = self._queues.find((topic, queue_id))
        if queue is None:
            return 0
        end = min(offset + count, queue.max_offset)
        wrong = [number for number in range(offset, end) if not self._is_right(queue, number)]
        if wrong:
            self._write(queue, wrong, self._from_log(queue, wrong))
        return sum(_leads_over(queue, number) for number in range(offset, end))

    def _is_right(self, queue: ConsumeQueue, offset: int) -> bool:
        """Return whether the unit leads to the record of its offset, or over a gap."""
        if _leads_over(queue, offset):
            return True
        unit = queue.unit(offset)
        data = None if unit is None or unit[1] <= 0 else self._log.record_at(unit[0], unit[1])
        if data is None:
            return False
        try:
            found = parse_record(data, with_body=False)
        except RecordError:
            return False
        return found.total_size == len(data) and is_message_of(queue, offset, found)

    def _from_log(self, queue: ConsumeQueue, wrong: list[int]) -> dict[int, bytes]:
        """Return the units of these messages as the log has them."""
        start, limit = self._around(queue, wrong[0], wrong[-1])
        name = queue.topic, queue.queue_id
        collector = UnitCollector(
            unit_code=self._dispatch.unit_code,
            special_topics=(SCHEDULE_TOPIC,),
            only={name},
            not_below=self._deleted.not_below,
            check_crc=False,
            light_queues=self._dispatch.light_queues,
        )
        walk = LogWalk(self._log.files, start, limit, collector)
        walk.run()
        if walk.end < limit:
            self._refuse(queue, wrong[0], walk)
        wanted = set(wrong)
        return {
            first + number: bytes(units[number * UNIT_BYTES : (number + 1) * UNIT_BYTES])
            for found in collector.queues()
            for first, units in found.runs
            for number in range(len(units) // UNIT_BYTES)
            if first + number in wanted
        }

    def _around(self, queue: ConsumeQueue, first: int, last: int) -> tuple[int, int]:
        """Return the part of the log, between the nearest intact units' records, that holds these messages."""
        start, limit = self._log.min_offset, self._log.visible_end
        before = queue.unit(first - 1) if first > queue.min_offset else None
        if before is not None and before[1] != FILLER_SIZE and self._is_right(queue, first - 1):
            start = before[0]
        behind = queue.unit(last + 1) if last + 1 < queue.max_offset else None
        if behind is not None and behind[1] != FILLER_SIZE and self._is_right(queue, last + 1):
            limit = behind[0]
        return start, max(limit, start)

    def _refuse(self, queue: ConsumeQueue, offset: int, walk: LogWalk) -> None:
        file = self._log.files.find(walk.end)
        path = self._log.files.directory if file is None else file.path
        raise LogDamaged(
            path,
            0 if file is None else walk.end - file.start_offset,
            walk.end,
            walk.problem or "nothing is written here",
            f"unit {offset} of {queue.directory} does not lead to its message, which has to be found in this part",
            self._root,
        )

    def _write(self, queue: ConsumeQueue, wrong: list[int], units: dict[int, bytes]) -> None:
        mended = []
        for offset in wrong:
            if offset in units and units[offset] != queue.read_units(offset, 1):
                self._queues.correct(queue, offset, units[offset])
                mended.append(offset)
        if mended:
            # The damaged units may have counted as units of deleted messages.
            queue.min_offset = min(queue.min_offset, mended[0])
            log.warning(
                "damaged consume queue units made from the commit log again",
                topic=queue.topic,
                queue=queue.queue_id,
                units=len(mended),
                first=mended[0],
                last=mended[-1],
                file=queue.path(mended[0] * UNIT_BYTES // queue.file_bytes * queue.file_bytes),
            )


def _leads_over(queue: ConsumeQueue, offset: int) -> bool:
    unit = queue.unit(offset)
    return unit is not None and unit[1] == FILLER_SIZE
