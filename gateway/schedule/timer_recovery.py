"""The findings of a start about timer messages: which ones wait, and which ones were delivered without a mark in a
crash.

The timer log is cut where the checkpoint says it was on disk; later messages enter again from the timer topic's queue.
For slots that were not done, the commit log shows which messages are stored already: a delivered message names the
place where it waited. After another broker the timer log is taken unchanged, as in upstream. (Upstream:
``TimerMessageStore.recover``.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from gateway.metadata.names import WHEEL_TIMER_TOPIC
from gateway.schedule.timer_check import TimerMarks
from gateway.schedule.timer_log import TimerLog
from gateway.schedule.timer_message import TIMER_QUEUE_ID, due_ms, slot_asked
from gateway.schedule.timer_schedule import TimerSchedule, WaitingTimer, is_marker
from gateway.settings.timer import TimerSettings
from gateway.store.message_store import MessageStore
from gateway.store.reading.get_result import GetStatus
from gateway.telemetry.logs import EventLog
from wire.disk.timer_log import ENTRY_BYTES, NONE
from wire.message.flags import SysFlag, transaction_kind
from wire.message.java_hash import java_string_hash
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, parse_records

log = EventLog("schedule")

READ_COUNT = 512
READ_BYTES = 1 << 20


class FoundTimers(msgspec.Struct, frozen=True):
    """The findings of a start.

    :param keep_from: the lowest offset in the commit log of a waiting message; None if no message waits.
    """

    keep_from: int | None
    entered: int
    already_stored: int


def waiting_of(
    properties: Mapping[str, str], commit_log_offset: int, size: int, stored_at_ms: int, precision_ms: int
) -> WaitingTimer | None:
    """Return a message of the timer topic as the schedule takes it; None if its properties do not say when or where."""
    out_ms, topic = slot_asked(properties), properties.get(PropertyName.REAL_TOPIC)
    if out_ms is None or topic is None:
        return None
    return WaitingTimer(
        commit_log_offset,
        size,
        out_ms,
        due_ms(properties, out_ms, stored_at_ms, precision_ms),
        java_string_hash(topic),
        properties.get(PropertyName.TIMER_DEL_UNIQKEY),
    )


class TimerRecovery:
    """The recovery of one start; blocks."""

    def __init__(
        self,
        store: MessageStore,
        timer_log: TimerLog,
        schedule: TimerSchedule,
        settings: TimerSettings,
        marks: TimerMarks,
    ) -> None:
        self._store = store
        self._log = timer_log
        self._schedule = schedule
        self._precision_ms = settings.timer_precision_ms
        self._marks = marks
        self._keep_from: int | None = None

    def run(self, now_ms: int) -> FoundTimers:
        """Fill the schedule.

        :raises GatewayError: the files of the timer log do not fit together.
        :raises OSError: a file cannot be read or written.
        """
        schedule = self._schedule
        self._log.load()
        self._judge_loss()
        self._log.cut(self._end())
        schedule.resume(self._marks, now_ms)
        self._take_entries()
        queue_offset = self._queue_offset()
        stored = self._stored_already()
        if stored:
            schedule.believe(stored, self._scan_from(), now_ms)
        entered = self._enter(queue_offset, stored, now_ms)
        self._log.write_all()
        return FoundTimers(self._keep_from, entered, len(stored))

    def _judge_loss(self) -> None:
        """Drop the marks if the timer log lost entries: then only the commit log shows which messages are delivered.

        A stop may have carried messages of finished slots over into later ones.
        """
        if not self._marks.is_foreign and self._log.end < self._marks.log_end:
            log.warning("timer log lost, made again", entries_end=self._log.end, expected_end=self._marks.log_end)
            self._marks = TimerMarks()

    def _end(self) -> int:
        """Return where the valid entries end; the log's begin if nobody says what was on disk."""
        if not self._marks.is_foreign:
            return self._marks.log_end
        end = self._log.begin
        if self._marks.read_to_ms:
            for position, entry in self._log.entries(end):
                if entry.record_size <= 0 or entry.written_at_ms <= 0:  # a power failure tore it
                    break
                end = position + ENTRY_BYTES
        return end

    def _take_entries(self) -> None:
        schedule, read_to_ms = self._schedule, self._marks.read_to_ms
        log_begin, log_end = self._store.min_commit_log_offset, self._store.max_commit_log_offset
        start = self._log.begin if self._marks.is_foreign else max(self._marks.waits_from, self._log.begin)
        markers = []
        for position, entry in self._log.entries(start, self._log.end):
            if entry.slot_ms < read_to_ms:
                schedule.passed(entry)
            elif log_begin <= entry.commit_log_offset <= log_end - entry.record_size:
                schedule.found(position, entry)
                self._keep(entry.commit_log_offset)
                if is_marker(entry.kind) and schedule.slot_of(entry.slot_ms) < schedule.open_to:
                    markers.append(entry)
        schedule.take_back(
            key
            for entry in markers
            if (message := self._store.message_at(entry.commit_log_offset, entry.record_size)) is not None
            and (key := message.property_map.get(PropertyName.TIMER_DEL_UNIQKEY)) is not None
        )

    def _keep(self, commit_log_offset: int) -> None:
        if self._keep_from is None or commit_log_offset < self._keep_from:
            self._keep_from = commit_log_offset

    # --- from the queue ------------------------------------------------------------------------------------------

    def _queue_offset(self) -> int:
        """Return the offset of the first message of the timer topic without an entry."""
        store, known = self._store, self._marks.queue_offset
        if self._marks.is_foreign:
            known = max(self._behind_newest(), known)
        begin = max(store.min_offset(WHEEL_TIMER_TOPIC, TIMER_QUEUE_ID), 0)
        return max(begin, min(known, store.max_offset(WHEEL_TIMER_TOPIC, TIMER_QUEUE_ID)))

    def _behind_newest(self) -> int:
        newest = self._schedule.newest
        message = self._store.message_at(*newest) if newest[1] else None
        return 0 if message is None or message.topic != WHEEL_TIMER_TOPIC else message.queue_offset + 1

    def _enter(self, queue_offset: int, stored: frozenset[int], now_ms: int) -> int:
        """Enter the messages that came later; return how many.

        Messages that are stored already are skipped: a rolled message would wait for another slot than before.
        """
        schedule = self._schedule
        count = 0
        for message in self._messages(queue_offset):
            waiting = waiting_of(
                message.property_map,
                message.commit_log_offset,
                message.total_size,
                message.stored_at_ms,
                self._precision_ms,
            )
            if waiting is None or message.commit_log_offset + message.total_size in stored:
                continue
            schedule.enter(waiting, now_ms)
            self._keep(waiting.commit_log_offset)
            count += 1
            if self._log.is_full:
                self._log.write_all()
        schedule.queue_offset = self._store.max_offset(WHEEL_TIMER_TOPIC, TIMER_QUEUE_ID)
        return count

    def _messages(self, offset: int) -> Iterator[StoredMessage]:
        store, end = self._store, self._store.max_offset(WHEEL_TIMER_TOPIC, TIMER_QUEUE_ID)
        while offset < end:
            result = store.get_messages(WHEEL_TIMER_TOPIC, TIMER_QUEUE_ID, offset, READ_COUNT, READ_BYTES)
            if result.status is GetStatus.FOUND:
                for part in result.parts:
                    yield from parse_records(part)
            else:
                log.error("timer messages cannot be read", offset=offset, reason=result.remark or result.status.name)
            offset = max(result.next_begin_offset, offset + 1)

    # --- what is delivered already -------------------------------------------------------------------------------

    def _scan_from(self) -> int:
        """Return the commit log offset from which unmarked deliveries may lie; ``NONE`` if unknown."""
        marks = self._marks
        if marks.scan_from != NONE:
            return min(marks.scan_from, self._store.max_commit_log_offset)
        if marks.read_to_ms:  # another broker's deliveries do not say where they come from
            return NONE
        first = next(self._messages(max(self._store.min_offset(WHEEL_TIMER_TOPIC, TIMER_QUEUE_ID), 0)), None)
        return NONE if first is None else first.commit_log_offset

    def _stored_already(self) -> frozenset[int]:
        """Return the ends of the waiting records whose messages are stored in their real topic."""
        scan_from = self._scan_from()
        if scan_from == NONE:
            return frozenset()
        return frozenset(
            record.prepared_transaction_offset
            for record in self._store.walk_from(scan_from)
            if record.prepared_transaction_offset > 0 and transaction_kind(record.sys_flag) == SysFlag.TRANSACTION_NONE
        )
