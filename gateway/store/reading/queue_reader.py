"""The read of messages through a consume queue: the records, with few reads of the log, and the next offset.

Statuses and next offsets follow upstream's ``DefaultMessageStore.getMessage``. Any thread may read. A thread that must
not wait for the disk calls ``read_now``, which knows what is in memory (upstream guesses by the distance from the log's
end); any other thread calls ``read``. Both use one algorithm on two sources of bytes (``sources``).
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import partial
from pathlib import Path

from gateway.store.log.commit_log import HEAD_READ_BYTES, CommitLog
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.extended_units import AcceptsCode, NotInMemory, has_addresses, lenient
from gateway.store.reading.choice import Choice
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.read_check import ReadCheck, units_before
from gateway.store.reading.sources import InMemory, Stored
from gateway.store.reading.wanted import ALL_WANTED, ChooseRecords, Wanted
from wire.disk.consume_queue import UNIT
from wire.errors import RecordError
from wire.message.record import StoredMessage, parse_record
from wire.message.record_fields import commit_log_offset_at

AHEAD_UNITS = 2048
"""The most messages whose records one ``read_ahead`` asks for."""
AHEAD_BYTES = 4 * 1024 * 1024
AHEAD_RANGES = 64
AHEAD_GAP_BYTES = 64 * 1024
"""The most bytes between records that are asked for as one range."""
LOOKS_FOR_TAGS = 10
"""The number of reads, one after the other, before an answer says that no message was wanted."""

_LOOKED = (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE)


class QueueReader:
    """The reader of all queues of one log.

    :ivar in_memory: the source that never waits for the disk.
    """

    def __init__(self, log: CommitLog, root: Path | None = None) -> None:
        self._log = log
        self._check = ReadCheck(log, log.files.directory.parent if root is None else root)
        self._stored = Stored(log)
        self._hidden: dict[ConsumeQueue, int] | None = None
        self.in_memory = InMemory(log)

    def hide(self, ends: dict[ConsumeQueue, int] | None) -> None:
        """Show queues only up to these offsets, which may rise; None: show everything."""
        self._hidden = ends

    def end(self, queue: ConsumeQueue) -> int:
        """Return the offset after the last message of a queue that is shown."""
        hidden = self._hidden
        if hidden is None:
            return queue.max_offset
        return min(hidden.get(queue, queue.max_offset), queue.max_offset)

    def read(
        self, queue: ConsumeQueue | None, offset: int, max_count: int, max_bytes: int, wanted: Wanted = ALL_WANTED
    ) -> GetResult:
        """Return up to ``max_count`` records and ``max_bytes`` bytes from ``offset`` on, but at least one record."""
        outside = self._outside(queue, offset)
        if outside is not None:
            return outside
        assert queue is not None, "a missing queue is outside"
        chosen = Choice(max(max_count, 1), max_bytes, self._log.min_offset, self._log.files.file_size)
        return self._look(queue, offset, chosen, wanted, self._stored)

    def read_now(
        self, queue: ConsumeQueue | None, offset: int, max_count: int, max_bytes: int, wanted: Wanted = ALL_WANTED
    ) -> GetResult | None:
        """Return the result of ``read``; None if the read would wait for the disk.

        If nearly no message has the wanted tags, the search goes on over several reads. Further reads cost less than an
        answer without a message.
        """
        result: GetResult | None = None
        for _ in range(LOOKS_FOR_TAGS):
            outside = self._outside(queue, offset)
            if outside is not None:
                return result or outside
            assert queue is not None, "a missing queue is outside"
            chosen = Choice(max(max_count, 1), max_bytes, self._log.min_offset, self._log.files.file_size)
            try:
                further = self._look(queue, offset, chosen, wanted, self.in_memory)
            except NotInMemory:
                break
            if result is not None and further.status not in _LOOKED:
                break
            result = further
            if result.status is not GetStatus.NO_MATCHED_MESSAGE or not chosen.at_once:
                break
            offset = result.next_begin_offset
        return result

    def _look(self, queue: ConsumeQueue, offset: int, chosen: Choice, wanted: Wanted, source: Stored) -> GetResult:
        """Choose from the units at ``offset``, read the chosen records, and check them.

        :raises NotInMemory: the source only has what is in memory, and more is needed.
        """
        while True:
            count = chosen.max_units or chosen.max_count
            if wanted.is_filtered and chosen.max_units is None:
                count = max(source.least_examined(), count)
            units = source.units(queue, offset, min(count, max(self.end(queue) - offset, 0)))
            if not units:
                outside = self._outside(queue, offset)  # retention has just deleted the units
                return outside or self._nothing(queue, GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset))
            by_code = wanted.by_code
            if wanted.is_filtered and has_addresses(units):
                units, by_code = source.with_codes(queue, units, wanted.by_extension), lenient(by_code)
            parts = _take(chosen, units, by_code, wanted.by_record, source)
            while parts is None and self._log.min_offset != chosen.log_min:
                # Retention has just deleted messages. The messages that still exist must not be skipped.
                chosen = chosen.again(self._log.min_offset)
                parts = _take(chosen, units, by_code, wanted.by_record, source)
            damage = self._damage(queue, offset, chosen, parts, units)
            if damage is None:
                return self._found(queue, offset, chosen, parts)
            whole, position, reason = damage
            if source is not self._stored:  # ``_stored`` reads more carefully
                chosen, source = chosen.again(self._log.min_offset), self._stored
            elif whole:  # return the messages before the damage; the next read starts there
                chosen = Choice(whole, chosen.max_bytes, self._log.min_offset, self._log.files.file_size, whole)
            else:
                remark = self._check.remark(queue.topic, queue.queue_id, offset, (position, reason))
                return self._damaged(queue, offset, remark)

    def _damage(
        self, queue: ConsumeQueue, offset: int, chosen: Choice, parts: list[bytes] | None, units: bytes
    ) -> tuple[int, int, str] | None:
        """Return the first message that differs from what was stored; None if all are right.

        The result holds the number of units before the message, its commit log offset, and what is wrong.
        """
        if chosen.gone and (odd := chosen.odd_unit(units)) is not None:
            return odd
        found = None if parts is None else self._check.find(queue, offset, chosen.ranges, parts, units)
        if parts is None:
            missing = (start for start, end in chosen.ranges if self._stored.span(start, end) is None)
            found = next(((start, "it does not lie in the commit log") for start in missing), None)
        return None if found is None else (units_before(units, found[0]), *found)

    def message_now(self, position: int, size: int) -> StoredMessage | None:
        """Return the message at a place of the log; None if it is not in memory, or if no message is there."""
        log = self._log
        if not HEAD_READ_BYTES - 24 <= size <= log.visible_end - position:
            return None
        try:
            data = self.in_memory.span(position, position + size)
            if data is None or commit_log_offset_at(data) != position:
                return None
            return parse_record(data, check_crc=position < log.checked_from)
        except (NotInMemory, RecordError):
            return None

    def read_ahead(self, queue: ConsumeQueue, offset: int) -> None:
        """Ask the system to bring the records from ``offset`` on into memory, for a consumer that catches up.

        Blocks for the consume queue, not for the records.
        """
        largest = self._log.files.file_size
        start = end = -1
        ranges, total = 0, 0
        for position, size, _ in UNIT.iter_unpack(queue.read_units(offset, AHEAD_UNITS)):
            if not 0 < size <= largest or ranges >= AHEAD_RANGES or total >= AHEAD_BYTES:
                break
            if end < 0 or not end <= position <= end + AHEAD_GAP_BYTES:
                self._ask_for(start, end)
                ranges += 1
                start = end = position
            total += position + size - end
            end = position + size
        self._ask_for(start, end)

    def _ask_for(self, start: int, end: int) -> None:
        while 0 <= start < end and (file := self._log.files.find(start)) is not None:
            file.read_ahead(start - file.start_offset, end - start)
            start = file.start_offset + file.size

    def is_near(self, queue: ConsumeQueue, offset: int, distance_bytes: int) -> bool:
        """Return whether a message is at most ``distance_bytes`` before the log's end.

        Return False if the disk would have to be read.
        """
        units = queue.read_units_now(offset, 1)
        if not units:
            return False
        position: int = UNIT.unpack_from(units)[0]
        return self._log.visible_end - position <= distance_bytes

    def stored_at_ms(self, queue: ConsumeQueue, offset: int) -> int:
        """Return the time when a queue's message was stored, in milliseconds; −1 if there is none."""
        unit = queue.unit(offset)
        return -1 if unit is None else self._log.stored_at_ms(unit[0])

    def offset_at_time(self, queue: ConsumeQueue, timestamp_ms: int, *, upper: bool) -> int:
        """Return the first offset stored at ``timestamp_ms`` or later; the queue's end if there is none.

        With ``upper``, return the last offset stored at ``timestamp_ms`` or earlier; 0 if there is none. Store times of
        a queue never fall, so a binary search finds the offset.
        """
        offsets = range(queue.min_offset, self.end(queue))
        stored = partial(self.stored_at_ms, queue)
        if not upper:
            return queue.min_offset + bisect_left(offsets, timestamp_ms, key=stored)
        found = bisect_right(offsets, timestamp_ms, key=stored)
        return queue.min_offset + found - 1 if found else 0

    def _found(self, queue: ConsumeQueue, offset: int, chosen: Choice, parts: list[bytes] | None) -> GetResult:
        next_offset = offset + chosen.examined
        if parts is not None and (batch_end := chosen.batch_end(parts)) > next_offset:
            next_offset = batch_end
        if parts is None or (chosen.count == 0 and chosen.gone):
            return self._nothing(queue, GetStatus.MESSAGE_WAS_REMOVING, next_offset)
        if chosen.count == 0:
            return self._nothing(queue, GetStatus.NO_MATCHED_MESSAGE, next_offset)
        return GetResult(GetStatus.FOUND, next_offset, (queue.min_offset, self.end(queue)), chosen.count, parts)

    def _damaged(self, queue: ConsumeQueue, offset: int, remark: str) -> GetResult:
        return GetResult(GetStatus.MESSAGE_DAMAGED, offset, (queue.min_offset, self.end(queue)), remark=remark)

    def _outside(self, queue: ConsumeQueue | None, offset: int) -> GetResult | None:
        """Return the answer for an offset at which the queue has no message; None if it has one."""
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, (0, 0))
        end = self.end(queue)
        if queue.min_offset <= offset < end:
            return None
        if end < offset <= queue.max_offset:  # it was shown before: a reader waits there, and is not sent back
            return self._nothing(queue, GetStatus.OFFSET_OVERFLOW_ONE, offset)
        if end == 0:
            return self._nothing(queue, GetStatus.NO_MESSAGE_IN_QUEUE, 0)
        if offset < queue.min_offset:
            return self._nothing(queue, GetStatus.OFFSET_TOO_SMALL, queue.min_offset)
        if offset == end:
            return self._nothing(queue, GetStatus.OFFSET_OVERFLOW_ONE, offset)
        return self._nothing(queue, GetStatus.OFFSET_OVERFLOW_BADLY, end)

    def _nothing(self, queue: ConsumeQueue, status: GetStatus, next_offset: int) -> GetResult:
        return GetResult(status, next_offset, (queue.min_offset, self.end(queue)))


def _take(
    chosen: Choice, units: bytes, by_code: AcceptsCode | None, by_record: ChooseRecords | None, source: Stored
) -> list[bytes] | None:
    """Choose from units; return the chosen bytes, or None if retention deleted some of them."""
    if by_record is not None:
        return _take_by_record(chosen, units, by_code, by_record, source)
    chosen.take(units, by_code)
    return source.parts(chosen.ranges)


def _take_by_record(
    chosen: Choice, units: bytes, accepts: AcceptsCode | None, choose: ChooseRecords, source: Stored
) -> list[bytes]:
    """Choose by the content of records, examined many at a time, twice as many each time.

    The first step examines as many as are wanted at most. Records in memory are an answer even if later records are not
    in memory.

    :raises NotInMemory: the first record is not in memory.
    """
    parts: list[bytes] = []
    count = chosen.max_count
    while chosen.examined * UNIT.size < len(units) and chosen.left > 0:
        spans, stop = chosen.spans(units, count, accepts)
        for span in spans:
            try:
                pieces = source.to_look_into(span)
            except NotInMemory:
                chosen.examined = span.number(0)
                if chosen.examined:
                    return parts
                raise
            for piece, data in pieces:
                if data is None:
                    chosen.gone = True
                elif not chosen.take_from(piece, data, choose, parts):
                    return parts
        chosen.examined = stop
        count *= 2
    return parts
