"""The append: a message gets its offsets, is packed as a record and joins the batch that is gathered.

Appends run on the reactor's thread, the only thread that gives out offsets. An appended message is not on disk yet, and
not visible.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from gateway.clock import Milliseconds
from gateway.settings.store import StoreSettings
from gateway.store.durability.dispatch import HIDDEN, SCHEDULE_TOPIC
from gateway.store.durability.group_commit import GroupCommit
from gateway.store.durability.light_queues import LightQueues
from gateway.store.durability.store_files import StoreFiles, StoreState
from gateway.store.log.log_batch import MAX_OUT_BYTES, LogBatch
from gateway.store.put_result import Places, PutOutcome, PutResult, PutRun, PutStatus, WaitFor
from gateway.store.queues.consume_queue import ConsumeQueue
from wire.errors import LocalError
from wire.message.batch import INNER_BATCH, inner_count, is_inner_batch
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, build_properties
from wire.message.record import LARGE_BODY_BYTES, OutgoingMessage, build_record, record_parts, write_record
from wire.quick.message_run import MessageRun

OnStored: TypeAlias = Callable[[PutResult], None]
OnAllStored: TypeAlias = Callable[[list[PutResult]], None]
OnRunStored: TypeAlias = Callable[[Sequence[PutOutcome]], None]

# Every message needs these, and to look up an attribute of an enumeration takes as long as a call.
_WRITE: Final = WaitFor.WRITE
_PUT_OK: Final = PutStatus.PUT_OK
_SPECIAL: Final = HIDDEN | INNER_BATCH
"""The bits of records that no queue shows, or that have several units."""
MULTI_DISPATCH: Final = PropertyName.INNER_MULTI_DISPATCH


class Appender:
    """The part that fills ``group.gathering``. A plain class for speed: ``append`` runs for every message.

    ``max_append_bytes`` is set when the file size is known; recovery sets ``last_stored_ms``.
    """

    def __init__(
        self,
        files: StoreFiles,
        state: StoreState,
        group: GroupCommit,
        settings: StoreSettings,
        clock_ms: Milliseconds,
    ) -> None:
        self._log = files.log
        self._queues = files.queues
        self._group = group
        self._admission = state.admission
        self._figures = state.figures
        self._clock_ms = clock_ms
        self._light = (
            LightQueues(files.queues, settings.max_lmq_consume_queue_num) if settings.fills_light_queues else None
        )
        self.max_append_bytes = 0
        self.last_stored_ms = 0

    def append(self, message: OutgoingMessage, on_stored: OnStored, wait_for: WaitFor = WaitFor.DISK) -> None:
        """Append one message.

        ``on_stored`` is called once: when ``wait_for`` says so, or at once if the message is refused.
        """
        commit_log, group = self._log, self._group
        batch = group.gathering
        position = commit_log.position
        if self._admission.refusal is not None or position > batch.limit:
            self._figures.refused_messages.value += 1
            on_stored(PutResult(self._refused(), message))
            return
        queue: ConsumeQueue | None = None
        queue_offset = 0
        if not message.sys_flag & HIDDEN:
            queue = self._queues.by_name.get((message.topic, message.queue_id)) or self._queues.make(
                message.topic, message.queue_id
            )
            queue_offset = queue.next_offset
        stored_at_ms = self._clock_ms()
        if stored_at_ms > self.last_stored_ms:
            self.last_stored_ms = stored_at_ms
        else:
            stored_at_ms = self.last_stored_ms  # see _now_ms
        try:
            size = self._write(batch, message, queue_offset, stored_at_ms)
        except LocalError:
            on_stored(PutResult(_illegal(message), message))
            return
        position = commit_log.position  # different from before if the log rolled
        result = PutResult(_PUT_OK, message).at(queue, queue_offset, position, size, stored_at_ms)
        batch.end = commit_log.position = position + size
        commit_log.room -= size
        if queue is not None:
            queue.next_offset = queue_offset + 1
        batch.outcomes.append(result)
        batch.waiters.append((on_stored, result, wait_for))
        if wait_for is _WRITE:
            batch.has_hasty = True
        group.wake()

    def _write(self, batch: LogBatch, message: OutgoingMessage, queue_offset: int, stored_at_ms: int) -> int:
        """Write a record at the log's position, or in the next file if this file has no room; return its size in bytes.

        :raises LocalError: the message has no valid record, or the record is larger than the limit; nothing was
            written.
        """
        if len(message.body) >= LARGE_BODY_BYTES:
            return self._write_large(batch, message, queue_offset, stored_at_ms)
        commit_log, out = self._log, batch.out
        start = len(out)
        size = write_record(out, message, queue_offset, commit_log.position, stored_at_ms)
        if size <= commit_log.room and size <= self.max_append_bytes:
            if not batch.writes:
                commit_log.begin_write(batch)
            if start + size >= MAX_OUT_BYTES:
                batch.seal()
            return size
        out.truncate(start)
        self._refuse_oversize(size)
        commit_log.roll(batch)
        return write_record(batch.out, message, queue_offset, commit_log.position, stored_at_ms)

    def _write_large(self, batch: LogBatch, message: OutgoingMessage, queue_offset: int, stored_at_ms: int) -> int:
        """Do the work of ``_write`` without a copy of the body."""
        commit_log = self._log
        parts = record_parts(message, queue_offset, commit_log.position, stored_at_ms)
        size = sum(map(len, parts))
        self._refuse_oversize(size)
        if size > commit_log.room:
            commit_log.roll(batch)
            parts = record_parts(message, queue_offset, commit_log.position, stored_at_ms)
        elif not batch.writes:
            commit_log.begin_write(batch)
        for part in parts:
            batch.add(part)
        return size

    def _refuse_oversize(self, size: int) -> None:
        if size > self.max_append_bytes:
            raise LocalError(f"a record takes {size} bytes, the limit is {self.max_append_bytes}")

    def append_or_dispatch(
        self, message: OutgoingMessage, on_stored: OnStored, wait_for: WaitFor = WaitFor.DISK
    ) -> None:
        """Do the work of ``append`` where messages may also name light queues."""
        if MULTI_DISPATCH in message.property_map:
            self.append_all([message], lambda results: on_stored(results[0]), wait_for)
        else:
            self.append(message, on_stored, wait_for)

    def _refused(self) -> PutStatus:
        """Return the outcome of messages that are not taken now."""
        few = self._admission.lacks_members
        return PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH if few else PutStatus.SERVICE_NOT_AVAILABLE

    def append_all(self, messages: Sequence[OutgoingMessage], on_stored: OnAllStored, wait_for: WaitFor) -> None:
        """Implement ``MessageStore.append_all``."""
        commit_log, batch = self._log, self._group.gathering
        is_full = batch.end > (commit_log.space_end if self._group.is_adding else batch.limit)
        if not messages or self._admission.refusal is not None or is_full:
            self._figures.refused_messages.value += len(messages)
            on_stored(_all_refused(self._refused(), messages))
            return
        packed = self._packed(messages, commit_log.position)
        if isinstance(packed, PutStatus):
            on_stored(_all_refused(packed, messages))
            return
        if packed.size > commit_log.room:
            commit_log.roll(batch)
            packed = self._packed(messages, commit_log.position)
            assert not isinstance(packed, PutStatus), "the same messages were fine a moment ago"
        elif not batch.writes:
            commit_log.begin_write(batch)
        for record in packed.records:
            batch.add(record)
        batch.end = commit_log.position = commit_log.position + packed.size
        commit_log.room -= packed.size
        for queue, next_offset in packed.next_offsets.items():
            queue.next_offset = next_offset
        results = packed.results
        batch.outcomes += results
        batch.waiters.append((on_stored, results, wait_for))
        if wait_for is _WRITE:
            batch.has_hasty = True
        self._group.wake()

    def append_run(self, run: MessageRun, on_stored: OnRunStored, wait_for: WaitFor = WaitFor.DISK) -> None:
        """Append the messages of a batch with the result of ``append_all``, but with less work.

        ``on_stored`` gets one outcome for all messages, or one outcome for each.
        """
        if not self._is_plain(run):
            self.append_all(run.messages(), on_stored, wait_for)
            return
        commit_log, batch = self._log, self._group.gathering
        if self._admission.refusal is not None or batch.end > batch.limit:
            self._figures.refused_messages.value += run.count
            on_stored([PutRun(self._refused(), run)])
            return
        queue = self._queues.make(run.batch.topic, run.batch.queue_id)
        queue_offset, stored_at_ms = queue.next_offset, self._now_ms()
        try:
            records = run.build(queue_offset, commit_log.position, stored_at_ms)
        except LocalError:
            self.append_all(run.messages(), on_stored, wait_for)  # append_all says what is wrong
            return
        if run.size > commit_log.room:
            commit_log.roll(batch)
            records = run.build(queue_offset, commit_log.position, stored_at_ms)
        elif not batch.writes:
            commit_log.begin_write(batch)
        outcome = PutRun(_PUT_OK, run, queue, queue_offset, commit_log.position, stored_at_ms)
        batch.add(records)
        batch.end = commit_log.position = commit_log.position + run.size
        commit_log.room -= run.size
        queue.next_offset = queue_offset + run.count
        batch.outcomes.append(outcome)
        batch.waiters.append((on_stored, [outcome], wait_for))
        if wait_for is _WRITE:
            batch.has_hasty = True
        self._group.wake()

    def _is_plain(self, run: MessageRun) -> bool:
        """Return whether the messages need only a record and a unit each; otherwise ``append_all`` does the work."""
        return (
            run.count > 0
            and run.largest <= self.max_append_bytes
            and run.size <= self._log.largest_append
            and not run.batch.sys_flag & _SPECIAL
            and run.batch.topic != SCHEDULE_TOPIC
            and not (run.names_light_queues and self._light is not None)
        )

    def _packed(self, messages: Sequence[OutgoingMessage], position: int) -> _Packed | PutStatus:
        """Return results and records of messages that will lie from ``position`` on, or why they are refused.

        Nothing is changed yet.
        """
        packed = _Packed()
        next_offsets = packed.next_offsets
        stored_at_ms = self._now_ms()
        has_light = self._light is not None
        start = position
        for message in messages:
            queue = None
            queue_offset = 0
            further: Places | None = ()
            if not message.sys_flag & HIDDEN:
                queue = self._queues.make(message.topic, message.queue_id)
                queue_offset = next_offsets.get(queue, queue.next_offset)
                next_offsets[queue] = queue_offset + 1
                if has_light or message.sys_flag & INNER_BATCH == INNER_BATCH:  # few messages need this
                    further = self._further(message, queue, next_offsets)
                    if further is None:
                        return PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
            try:
                record = build_record(message, queue_offset, position, stored_at_ms)
            except LocalError:
                return _illegal(message)
            size = len(record)
            if size > self.max_append_bytes:
                return PutStatus.MESSAGE_ILLEGAL
            result = PutResult(_PUT_OK, message).at(queue, queue_offset, position, size, stored_at_ms)
            if further:
                result.further = further
            packed.results.append(result)
            packed.records.append(record)
            position += size
        packed.size = position - start
        if packed.size > self._log.largest_append:
            return PutStatus.MESSAGE_ILLEGAL
        return packed

    def _further(
        self, message: OutgoingMessage, queue: ConsumeQueue, next_offsets: dict[ConsumeQueue, int]
    ) -> Places | None:
        """Return the units that lead to a message besides its own; None if there would be too many queues."""
        if is_inner_batch(message.sys_flag):
            first = next_offsets[queue] - 1
            properties = {**message.property_map, PropertyName.INNER_BASE: str(first)}
            message.properties = build_properties(properties)
            message.property_map = properties
            end = next_offsets[queue] = first + inner_count(message.sys_flag, first, properties)
            return tuple((queue, offset) for offset in range(first + 1, end))
        if self._light is not None and MULTI_DISPATCH in message.property_map:
            return self._light.place(message, next_offsets)
        return ()

    def _now_ms(self) -> int:
        """Return the store time of a new message in milliseconds.

        Store times never fall, so that a queue can be searched by time; if the clock is set back, the last time is
        repeated.
        """
        now_ms = self._clock_ms()
        if now_ms < self.last_stored_ms:
            return self.last_stored_ms
        self.last_stored_ms = now_ms
        return now_ms


class _Packed:
    """Messages that are appended at once, and the next offsets of their queues. A plain class for speed: hot."""

    __slots__ = ("next_offsets", "records", "results", "size")

    def __init__(self) -> None:
        self.results: list[PutResult] = []
        self.records: list[bytes] = []
        self.next_offsets: dict[ConsumeQueue, int] = {}
        self.size = 0


def _illegal(message: OutgoingMessage) -> PutStatus:
    too_long = len(message.properties) > MAX_PROPERTIES_BYTES
    return PutStatus.PROPERTIES_SIZE_EXCEEDED if too_long else PutStatus.MESSAGE_ILLEGAL


def _all_refused(status: PutStatus, messages: Sequence[OutgoingMessage]) -> list[PutResult]:
    return [PutResult(status, message) for message in messages]
