"""The append of records that another broker wrote: byte for byte at the same place, in the queues at the same offsets.

The offset that a record states wins over the queue's own count, by the rules of recovery (``UnitWriter``), so that a
crash changes nothing:

    an empty queue             begins at the record's offset
    offset 0 of a longer one   the topic was deleted and made again at the other broker: the queue begins again
    a higher offset            the messages between are not in the log: the queue leads over them
    another lower offset       the offset is damaged: no queue shows the message

A queue changes in such a way only when everything before is visible; the records before it therefore go first, as a
batch of their own. Records that all go on where their queues end are appended at once, without an object for each.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from gateway.in_thread import Failed, InThread
from gateway.store.durability.appender import Appender
from gateway.store.durability.dispatch import HIDDEN, SCHEDULE_TOPIC, UnitDispatch
from gateway.store.durability.flushing import Flushing
from gateway.store.durability.group_commit import GroupCommit
from gateway.store.durability.publication import Publication
from gateway.store.durability.store_files import StoreFiles, StoreState
from gateway.store.log.copied_records import (
    CopiedRecords,
    KeyedRecord,
    PlainRecords,
    copied_records,
    plain_records,
)
from gateway.store.log.log_batch import LogBatch
from gateway.store.put_result import PutOutcome, PutResult, PutRow, PutStatus, WaitFor
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.unit_writer import MAX_OFFSET, UnitWriter
from gateway.telemetry.logs import EventLog
from wire.disk.unit_collector import Seen, UnitCollector
from wire.message.batch import inner_offsets
from wire.message.flags import SysFlag
from wire.message.light_queues import LIGHT_QUEUE_ID, light_places
from wire.message.record import StoredMessage, restated

log = EventLog("store")

OnCopied: TypeAlias = Callable[[bool], None]
"""A function that is called with True when all records are stored and visible, with False if some were refused."""


class _Odd(NamedTuple):
    """A message whose offset is not the next one of its queue."""

    queue: ConsumeQueue
    offset: int
    place: int
    """The commit log offset of the message."""


class _Waiting(NamedTuple):
    """A call that goes on when everything before is visible."""

    go_on: Callable[[], None]
    on_copied: OnCopied


class Copying:
    """The part that appends copied records, one call after the other; nothing else appends meanwhile."""

    def __init__(
        self,
        files: StoreFiles,
        state: StoreState,
        appender: Appender,
        dispatch: UnitDispatch,
        publication: Publication,
        flushing: Flushing,
        in_log_thread: InThread,
    ) -> None:
        self._log = files.log
        self._queues = files.queues
        self._checkpoint = files.checkpoint
        self._admission = state.admission
        self._appender = appender
        self._dispatch = dispatch
        self._publication = publication
        self._flushing = flushing
        self._in_log_thread = in_log_thread
        self._units = UnitWriter(files.queues)
        self._hidden: set[tuple[int, ConsumeQueue]] = set()
        """The places of messages, and the queues that do not show them, among the records of one call."""
        self._waiting: _Waiting | None = None
        self._asks = False
        """True while ``Publication.when_idle`` will call back."""
        self._is_given_up = False

    def records(self, received: bytes) -> CopiedRecords:
        """Implement ``MessageStore.copied_records``."""
        start, file_size = self._log.position, self._log.files.file_size
        found = None if self._dispatch.is_extended else plain_records(received, start, file_size, self._collector)
        return copied_records(received, start, file_size) if found is None else found

    def _collector(self, seen: Seen) -> UnitCollector:
        return UnitCollector(
            unit_code=self._dispatch.unit_code,
            special_topics=(SCHEDULE_TOPIC,),
            light_queues=self._dispatch.light_queues,
            seen=seen,
        )

    def append(self, records: CopiedRecords, on_copied: OnCopied) -> None:
        """Append records that start where the log ends; the log keeps those before the first that is refused.

        The next call may follow when the log has grown to the end of the records.
        """
        assert records.start == self._log.position, "copied records continue the log"
        self._is_given_up = False
        if records.plain is None or not self._append_plain(records, records.plain, on_copied):
            self._hidden.clear()
            self._go_on(records, 0, records.start, on_copied)

    def give_up(self) -> None:
        """Append nothing more of earlier calls: what waits until everything before is visible is refused at once."""
        self._is_given_up = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.on_copied(False)

    def _when_idle(self, go_on: Callable[[], None], on_copied: OnCopied) -> None:
        self._waiting = _Waiting(go_on, on_copied)
        if not self._asks:
            self._asks = True
            self._publication.when_idle(self._idle)

    def _idle(self) -> None:
        self._asks = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.go_on()

    @property
    def _group(self) -> GroupCommit:
        group = self._publication.group
        assert group is not None, "set when the store is put together"
        return group

    # --- plain records -------------------------------------------------------------------------------------------

    def _append_plain(self, records: CopiedRecords, plain: PlainRecords, on_copied: OnCopied) -> bool:
        """Append records if all of them go on where their queues end, and one batch takes them."""
        batch = self._group.gathering
        if self._admission.refusal is not None or batch.end > batch.limit:
            return False
        queues: list[ConsumeQueue] = []
        for found in plain.queues:
            queue = self._queues.make(found.topic, found.queue_id)
            first = found.runs[0][0]
            if first != queue.next_offset and not (queue.is_new and 0 <= first <= MAX_OFFSET):
                return False
            queues.append(queue)
        outcomes: list[PutOutcome] = []
        stored_at_ms = plain.keyed[-1][2]
        for queue, found in zip(queues, plain.queues, strict=True):
            first, units = found.runs[0]
            if queue.is_new:
                queue.start_at(first)
            row = PutRow(queue, first, bytes(units), records.data, records.start)
            row.stored_at_ms = stored_at_ms
            queue.next_offset = first + row.count
            outcomes.append(row)
        if stored_at_ms > self._appender.last_stored_ms:
            self._appender.last_stored_ms = stored_at_ms
        self._write(batch, records, records.end)
        self._add(batch, outcomes, plain.keyed, partial(self._told, on_copied))
        return True

    def _told(self, on_copied: OnCopied, told: Sequence[PutOutcome]) -> None:
        on_copied(told[0].status.is_stored)

    def _add(
        self,
        batch: LogBatch,
        outcomes: Sequence[PutOutcome],
        keyed: list[KeyedRecord],
        told: Callable[[Sequence[PutOutcome]], None],
    ) -> None:
        batch.outcomes += outcomes
        batch.keyed = keyed if batch.keyed is None else batch.keyed + keyed
        batch.waiters.append((told, outcomes, WaitFor.DISK))
        self._group.wake()

    # --- one by one ----------------------------------------------------------------------------------------------

    def _go_on(self, records: CopiedRecords, first: int, position: int, on_copied: OnCopied) -> None:
        """Append the records from a number on, as many as one batch takes.

        :param position: the offset of the log after the record before them.
        """
        batch = self._group.gathering
        is_full = batch.end > batch.limit
        is_refused = self._is_given_up or self._admission.refusal is not None
        if is_refused or self._log.position != position or (is_full and self._group.is_idle):
            on_copied(False)
            return
        go_on = partial(self._go_on, records, first, position, on_copied)
        if is_full:
            self._when_idle(go_on, on_copied)
            return
        outcomes: list[PutOutcome] = []
        keyed: list[KeyedRecord] = []
        number = first
        for message in records.messages[first:]:
            places = self._places(message)
            odd = _odd(message, places)
            if odd is not None:
                if outcomes:
                    break
                self._when_idle(partial(self._settle, odd, go_on, on_copied), on_copied)
                return
            outcomes.append(self._outcome(message, places))
            if message.sys_flag & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK:
                keyed.append((message.topic, message.commit_log_offset, message.stored_at_ms, message.properties))
            number += 1
        if not outcomes:
            on_copied(True)
            return
        last = records.messages[number - 1]
        end = last.commit_log_offset + last.total_size
        self._write(batch, records, end)
        self._add(batch, outcomes, keyed, partial(self._stored, records, number, end, on_copied))

    def _stored(
        self, records: CopiedRecords, number: int, end: int, on_copied: OnCopied, told: Sequence[PutOutcome]
    ) -> None:
        if not told[0].status.is_stored:
            on_copied(False)
        elif number < len(records.messages):
            self._go_on(records, number, end, on_copied)
        else:
            on_copied(True)

    def _outcome(self, message: StoredMessage, places: list[tuple[ConsumeQueue, int]]) -> PutResult:
        copied = restated(message, message.topic, message.queue_id, message.properties, message.property_map)
        result = PutResult(PutStatus.PUT_OK, copied)
        queue, offset = places[0] if places else (None, 0)
        result.at(queue, offset, message.commit_log_offset, message.total_size, message.stored_at_ms)
        result.further = tuple(places[1:])
        for place, taken in places:
            place.next_offset = taken + 1
        if message.stored_at_ms > self._appender.last_stored_ms:
            self._appender.last_stored_ms = message.stored_at_ms
        return result

    def _write(self, batch: LogBatch, records: CopiedRecords, end: int) -> None:
        """Add the bytes from the log's position to ``end``, as a part for each file."""
        commit_log = self._log
        file_size = commit_log.files.file_size
        while (position := commit_log.position) < end:
            if not batch.writes or position % file_size == 0:
                batch.seal()
                commit_log.begin_write(batch)
            stop = min(end, position - position % file_size + file_size)
            batch.add(records.data[position - records.start : stop - records.start])
            commit_log.move_to(stop)
        batch.end = end

    # --- queues --------------------------------------------------------------------------------------------------

    def _places(self, message: StoredMessage) -> list[tuple[ConsumeQueue, int]]:
        """Return the queues that show a message, and its offsets there, the queue of its own first."""
        if message.sys_flag & HIDDEN:
            return []
        named = [(message.topic, message.queue_id, offset) for offset in inner_offsets(message)]
        if self._dispatch.light_queues:
            end = message.commit_log_offset + message.total_size
            light = light_places(message.topic, message.property_map)
            named += [(name, LIGHT_QUEUE_ID, offset) for name, offset in light if offset < end]
        places: list[tuple[ConsumeQueue, int]] = []
        for topic, queue_id, offset in named:
            queue = self._queues.make(topic, queue_id)
            if (message.commit_log_offset, queue) in self._hidden:
                continue
            if queue.is_new and 0 <= offset <= MAX_OFFSET and not any(place is queue for place, _ in places):
                queue.start_at(offset)
            places.append((queue, offset))
        return places

    def _settle(self, odd: _Odd, go_on: Callable[[], None], on_copied: OnCopied) -> None:
        """Change a queue so that the message with an unexpected offset is its next one, or hide the message there."""
        if not self._publication.is_complete:
            on_copied(False)  # the queues cannot be written now
            return
        self._in_log_thread(partial(self._make_room, odd), partial(self._settled, odd, go_on, on_copied))

    def _settled(self, odd: _Odd, go_on: Callable[[], None], on_copied: OnCopied, result: object) -> None:
        queue = odd.queue
        if isinstance(result, Failed):
            log.error("a queue cannot take copied messages", topic=queue.topic, error=str(result.error))
            on_copied(False)
            return
        if not result:
            log.warning("copied message in no queue", topic=queue.topic, queue=queue.queue_id, offset=odd.offset)
            self._hidden.add((odd.place, queue))
        go_on()

    def _make_room(self, odd: _Odd) -> bool:
        """Let a queue go on at an offset; return False if it cannot. Blocks."""
        queue, offset, place = odd
        if not 0 <= offset <= MAX_OFFSET:
            return False
        with self._flushing.in_turn:
            self._queues.write_held()
            if offset == 0 or queue.covered_end() == -1:
                # A crash may leave any of the files: the next start then makes the queue from the log again.
                self._checkpoint.distrust_queues(self._log.min_offset)
                queue.clear()
                queue.start_at(offset)
                return True
            return offset > queue.max_offset and self._units.lead_over(queue, offset, place)


def _odd(message: StoredMessage, places: Sequence[tuple[ConsumeQueue, int]]) -> _Odd | None:
    """Return the first place of a message that is not the next one of its queue; None if all are."""
    expected: dict[ConsumeQueue, int] = {}
    for queue, offset in places:
        if offset != expected.get(queue, queue.next_offset):
            return _Odd(queue, offset, message.commit_log_offset)
        expected[queue] = offset + 1
    return None
