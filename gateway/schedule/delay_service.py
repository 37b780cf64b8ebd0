"""The service that releases delayed messages when the time of their level has passed.

Each level has its own queue in the schedule topic, in the order of due times. So only the first message of a level has
to be read. A released message is appended to its real topic. The level's offset moves on after the message is stored,
and the offset is saved after the message is on disk. A message that can never be stored is given up, so that those
behind it are not held up: a retry goes to the dead letters of its group, and of any other message a log line is left.

Upstream: ``ScheduleMessageService``, without its polling: a level sleeps until its first message is due or, if it is
empty, until a message arrives. If many messages are due at the same moment, several turns of the reactor release them,
and levels take turns, so that no other request is delayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from gateway.clock import Milliseconds
from gateway.errors import GatewayError
from gateway.in_thread import Failed, InThread
from gateway.metadata.names import SCHEDULE_TOPIC
from gateway.schedule.redirect import (
    DelayLevels,
    DeliveryQueue,
    dead_letter,
    delay_level_of_queue,
    released,
    schedule_queue_id,
    the_same_queue,
)
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.telemetry.logs import EventLog
from wire.errors import RecordError
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage, StoredMessage, parse_record, restated
from wire.message.record_fields import queue_offset_at

log = EventLog("schedule")

LEAST_READ, MOST_READ = 4, 256
"""The fewest and the most messages read in one look at a level.

Each look reads twice as many messages as were due at the last look. Most waiting messages are not due yet.
"""
MOST_RELEASED = 64
"""The number of messages of all levels that are appended in one turn of the reactor.

Further messages that were read follow in the next turns, without waiting for the disk.
"""
MENDED_UNITS = 256
MAX_LEVELS = 10_000
"""The highest level whose offset is kept though there is no such level here: it may come back with the settings."""
READ_BYTES = 1 << 20
RETRY_MS = 10_000
"""The milliseconds until a message that could not be stored is tried again, as in upstream."""
LONGEST_SLEEP_MS = 60_000
DOUBTED_UNITS = 64
"""The number of units checked if a level's queue starts after the level's offset."""


_NOT_THERE = frozenset({GetStatus.MESSAGE_DAMAGED, GetStatus.MESSAGE_WAS_REMOVING, GetStatus.OFFSET_FOUND_NULL})
"""The results of a read whose unit does not lead to its message, or leads over a gap."""


class NewMessage(Protocol):
    """The part of a newly dispatched message that this service uses."""

    topic: str
    queue_id: int


class _Level:
    """The progress of one level."""

    __slots__ = (
        "ahead",
        "busy",
        "call",
        "damaged_at",
        "is_told",
        "is_waiting",
        "level",
        "next_due_ms",
        "offset",
        "queue_id",
        "read_count",
        "unflushed",
    )

    def __init__(self, level: int) -> None:
        self.level = level
        self.queue_id = schedule_queue_id(level)
        self.offset = 0
        self.ahead: frozenset[int] = frozenset()
        """The offsets above ``offset`` whose messages were stored while one before them was not: at most one look."""
        self.unflushed: deque[tuple[int, int]] = deque()
        """The end in the commit log, and the level's offset before, of each release that may not be on disk yet."""
        self.damaged_at = -1
        """The offset of an unreadable message whose unit was already made again; -1 without such a message."""
        self.is_told = False
        self.read_count = LEAST_READ
        """The number of messages that the next look reads."""
        self.next_due_ms = 0
        """The due time, in epoch milliseconds, of the first message after the release under way; 0 if none was seen."""
        self.is_waiting = False
        """True if a look at the level is planned."""
        self.busy = False
        self.call: IDelayedCall | None = None


class _Release:
    """Due messages of a level on their way, in order, without those that were stored before (``stored``)."""

    __slots__ = ("_due", "end", "has_failed", "left", "log_end", "pending", "stored")

    def __init__(self, due: list[StoredMessage], stored: frozenset[int]) -> None:
        self._due = [message for message in due if message.queue_offset not in stored] if stored else due
        self.left = self.pending = len(self._due)
        """The number of messages not appended yet (``left``), and not stored yet (``pending``)."""
        self.end = due[-1].queue_offset + 1
        """The level's next offset after all messages are stored."""
        self.stored = set(stored)
        self.has_failed = False
        self.log_end = 0

    def take(self, count: int) -> list[StoredMessage]:
        """Return the next ``count`` messages to append."""
        begin = len(self._due) - self.left
        taken = self._due[begin : begin + count]
        self.left -= len(taken)
        return taken

    def end_here(self) -> None:
        """Append no more messages of this release."""
        if self.left:
            self.end = min(self.end, self._due[-self.left].queue_offset)
            self.pending -= self.left
            self.left = 0


class DelayService:
    """The service that releases delayed messages.

    :param reactor: used for its clock only.
    :param in_thread: runs the reads that may wait for the disk.
    :param delivery_queue: returns the queue for a message, and makes a topic that is missing.
    :ivar given_up: how many messages neither their topic nor dead letters took since the start.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        levels: DelayLevels,
        reactor: IReactorTime,
        clock: Milliseconds,
        in_thread: InThread,
        delivery_queue: DeliveryQueue = the_same_queue,
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._delivery_queue = delivery_queue
        self._delays = levels
        self._reactor = reactor
        self._clock = clock
        self._levels = {level: _Level(level) for level in range(1, levels.last + 1)}
        self._kept: dict[int, int] = {}
        self._turn: IDelayedCall | None = None
        """The call of the next turn, planned if this turn has released something; otherwise None."""
        self._steps: deque[Callable[[], None]] = deque()
        """The steps that wait for the next turn or a later turn: at most one for each level."""
        self._running = False
        self.given_up = 0

    def resume_from(self, offsets: Mapping[int, int]) -> None:
        """Continue where an earlier run ended, before the start.

        :param offsets: a map of delay level to next offset in the level's queue.
        """
        for number, offset in offsets.items():
            level = self._levels.get(number)
            if level is None:
                if 0 < number <= MAX_LEVELS and offset >= 0:
                    self._kept[number] = offset
            else:
                level.offset = offset
                self._mend_begin(level)

    def _mend_begin(self, level: _Level) -> None:
        """Mend the first units of a queue that starts after the level's offset.

        Waiting messages seem to be deleted, but their units may be damaged and lead to a place before the start of the
        log.
        """
        begin = self._store.min_offset(SCHEDULE_TOPIC, level.queue_id)
        if not 0 <= level.offset < begin:
            return
        first = max(level.offset, begin - DOUBTED_UNITS)
        try:
            self._store.mend_queue(SCHEDULE_TOPIC, level.queue_id, first, begin - first)
        except (OSError, GatewayError) as error:
            log.error("delay queue not checked", delay_level=level.level, offset=first, reason=str(error))

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each level that ever held a message, for delayOffset.json."""
        moved = {level.level: level.offset for level in self._levels.values() if level.offset}
        return {**self._kept, **moved}

    def durable_offsets(self) -> dict[int, int]:
        """Return ``offsets``, limited to released messages that are on disk.

        With ASYNC_FLUSH a released message may not be on disk yet; if it is lost, its level must not have moved past
        it.
        """
        flushed = self._store.flushed_offset
        durable = self.offsets()
        for level in self._levels.values():
            while level.unflushed and level.unflushed[0][0] <= flushed:
                level.unflushed.popleft()
            if level.unflushed:
                durable[level.level] = level.unflushed[0][1]
        return durable

    def start(self) -> None:
        """Check every level once."""
        self._running = True
        for level in self._levels.values():
            # A queue that lost its end in a crash starts again below the offset: what comes there is new.
            offset = min(level.offset, self._store.max_offset(SCHEDULE_TOPIC, level.queue_id))
            level.offset = max(offset, self._store.min_offset(SCHEDULE_TOPIC, level.queue_id), 0)
            self._wake(level)

    def stop(self) -> None:
        """Release no more messages; a message that is being stored still moves its level's offset."""
        self._running = False
        for level in self._levels.values():
            _cancel(level)
        if self._turn is not None:
            self._turn.cancel()
            self._next_turn()

    def arrived(self, messages: Iterable[NewMessage]) -> None:
        """Wake the levels that were empty and now have a message."""
        if not self._running:
            return
        for queue_id in {message.queue_id for message in messages if message.topic == SCHEDULE_TOPIC}:
            level = self._levels.get(delay_level_of_queue(queue_id))
            if level is not None and not level.busy and level.call is None:
                self._wake(level)

    def _wake(self, level: _Level) -> None:
        level.call = None
        if not level.is_waiting:
            level.is_waiting = True
            self._in_turn(partial(self._look_at, level))

    def _in_turn(self, step: Callable[[], None]) -> None:
        """Run a step now, or after the steps that wait already."""
        if self._turn is None:
            step()
        else:
            self._steps.append(step)

    def _next_turn(self) -> None:
        self._turn = None
        try:
            while self._steps and self._turn is None:
                self._steps.popleft()()
        finally:
            if self._steps and self._turn is None:
                self._turn = self._reactor.callLater(0, self._next_turn)

    def _look_at(self, level: _Level) -> None:
        """Release the due messages of a level, or sleep until one is due."""
        level.is_waiting = False
        if not self._running or level.busy:
            return
        store, queue_id, offset, count = self._store, level.queue_id, level.offset, level.read_count

        def read() -> GetResult:
            return store.get_messages(SCHEDULE_TOPIC, queue_id, offset, count, READ_BYTES)

        try:
            result = store.get_messages_now(SCHEDULE_TOPIC, queue_id, offset, count, READ_BYTES)
        except OSError as error:
            self._read_failed(level, error)
            return
        if result is None:  # it waits for the disk
            level.busy = True
            self._in_thread(read, lambda result: self._in_turn(partial(self._cold_read, level, result)))
        else:
            self._have_read(level, result)

    def _cold_read(self, level: _Level, result: GetResult | Failed) -> None:
        level.busy = False
        if not self._running:
            return
        if isinstance(result, Failed):
            self._read_failed(level, result.error)
        else:
            self._have_read(level, result)

    def _read_failed(self, level: _Level, error: BaseException) -> None:
        log.error("read failed", delay_level=level.level, offset=level.offset, error=repr(error))
        self._sleep(level, RETRY_MS)

    def _have_read(self, level: _Level, result: GetResult) -> None:
        if result.status in _NOT_THERE:
            self._damaged(level, result.remark or result.status.name, result.next_begin_offset)
            return
        if result.status is not GetStatus.FOUND:
            self._skip_gap(level, result.status, result.next_begin_offset)
            return
        try:
            first = queue_offset_at(result.parts[0])
            if first != level.offset:
                self._damaged(level, f"message {first} is the next one that is found", first)
                return
            due, next_due_ms = self._due(level, b"".join(result.parts))
        except RecordError as error:
            self._damaged(level, str(error), level.offset)
            return
        level.damaged_at = -1
        if due:
            level.next_due_ms = next_due_ms
            self._release(level, due)
        else:
            self._sleep(level, next_due_ms - self._clock())
        level.read_count = min(max(2 * len(due), LEAST_READ), MOST_READ)

    # -- damage ---------------------------------------------------------------------------------------------

    def _damaged(self, level: _Level, reason: str, end: int) -> None:
        """Make the next units of the level from the log again, in a thread, and read on.

        If that does not help, the level stops at this offset: no message is skipped.

        :param end: where the messages that are not found end.
        """
        if level.damaged_at == level.offset:
            self._stopped_at(level, reason)
            return
        level.damaged_at, level.is_told = level.offset, False
        level.busy = True
        store, queue_id, offset = self._store, level.queue_id, level.offset

        def mend() -> GetResult | int:
            store.mend_queue(SCHEDULE_TOPIC, queue_id, offset, MENDED_UNITS)
            if end > offset and store.mend_queue(SCHEDULE_TOPIC, queue_id, offset, end - offset) == end - offset:
                return end  # they are in no part of the log
            return store.get_messages(SCHEDULE_TOPIC, queue_id, offset, MOST_READ, READ_BYTES)

        self._in_thread(mend, lambda result: self._in_turn(partial(self._mended, level, result)))

    def _mended(self, level: _Level, result: GetResult | int | Failed) -> None:
        level.busy = False
        if not self._running:
            return
        if isinstance(result, Failed):
            self._stopped_at(level, str(result.error))
        elif isinstance(result, int):
            self._skip_gap(level, GetStatus.MESSAGE_WAS_REMOVING, result)
        else:
            self._have_read(level, result)

    def _stopped_at(self, level: _Level, reason: str) -> None:
        """Log once that the level stopped, and try again later.

        Other levels continue; this level continues after a restart at the latest.
        """
        if not level.is_told:
            log.error(
                "delay level stopped at a message that cannot be read",
                delay_level=level.level,
                offset=level.offset,
                reason=reason,
                remedy="stop the broker and run 'rocketmq-gateway store repair' on its store directory",
            )
            level.is_told = True
        self._sleep(level, RETRY_MS)

    def _due(self, level: _Level, records: bytes) -> tuple[list[StoredMessage], int]:
        """Return the due messages at the front, and when the first later message is due; 0 if none was seen.

        If a later record is damaged, or a gap follows, return the messages before it.

        :raises RecordError: the very first record is damaged.
        """
        due: list[StoredMessage] = []
        delay_ms = self._delays.delay_ms(level.level)
        due_before_ms = self._clock() - delay_ms
        at = 0
        while at < len(records):
            try:
                message = parse_record(records, at)
            except RecordError:
                if due:
                    break
                raise
            if message.queue_offset != level.offset + len(due):
                break
            if message.stored_at_ms > due_before_ms:
                return due, message.stored_at_ms + delay_ms
            due.append(message)
            at += message.total_size
        return due, 0

    def _skip_gap(self, level: _Level, status: GetStatus, next_offset: int) -> None:
        """Move past a gap: retention removed the message at the offset, or the queue is shorter than the offset."""
        if status in (
            GetStatus.OFFSET_TOO_SMALL,
            GetStatus.OFFSET_OVERFLOW_BADLY,
            GetStatus.MESSAGE_WAS_REMOVING,
        ):
            log.warning("delay level moved", delay_level=level.level, from_offset=level.offset, to_offset=next_offset)
            wait_ms = 0 if next_offset != level.offset else RETRY_MS
            level.offset = next_offset
            self._sleep(level, wait_ms)

    def _sleep(self, level: _Level, wait_ms: int) -> None:
        wait_ms = max(0, min(wait_ms, LONGEST_SLEEP_MS))
        level.call = self._reactor.callLater(wait_ms / 1000, self._wake, level)

    def _release(self, level: _Level, due: list[StoredMessage]) -> None:
        """Append all due messages in order; the offset moves past the last message that is stored."""
        level.busy = True
        self._append_next(level, _Release(due, level.ahead))

    def _append_next(self, level: _Level, release: _Release) -> None:
        """Append as many messages of a release as one turn has time for."""
        if not self._running:
            release.end_here()
        elif self._turn is None:
            self._turn = self._reactor.callLater(0, self._next_turn)
        for message in release.take(MOST_RELEASED):
            delivered = released(message)
            if delivered is None:
                log.error(
                    "delayed message without a real topic dropped",
                    delay_level=level.level,
                    offset=message.queue_offset,
                )
                release.pending -= 1
            else:
                delivered.queue_id = self._delivery_queue(
                    delivered.topic, delivered.queue_id, message.commit_log_offset
                )
                self._store.append(delivered, partial(self._stored, level, release, message.queue_offset))
        if release.left:
            self._steps.append(partial(self._append_next, level, release))
        elif not release.pending:
            self._released(level, release)

    def _stored(self, level: _Level, release: _Release, queue_offset: int, result: PutResult) -> None:
        status, message = result.status, result.message
        if status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED:
            log.error("delayed message goes to no light queue", delay_level=level.level, offset=queue_offset)
            self._store.append(_without_light_queues(message), partial(self._stored, level, release, queue_offset))
            return
        letter = dead_letter(message) if status.is_final else None
        if letter is not None:
            log.error("delayed retry goes to the dead letters", **_facts(level, queue_offset, result))
            letter.queue_id = self._delivery_queue(letter.topic, 0, self._store.stored_end)
            self._store.append(letter, partial(self._stored, level, release, queue_offset))
            return
        release.pending -= 1
        if status.is_stored:
            release.stored.add(queue_offset)
            release.log_end = max(release.log_end, result.commit_log_offset + result.size)
        elif status.is_final:
            log.error("delayed message given up", **_facts(level, queue_offset, result))
            self.given_up += 1
        else:
            log.error("release failed", delay_level=level.level, offset=queue_offset, status=status.name)
            release.end = min(release.end, queue_offset)
            release.has_failed = True
        if not release.pending:
            self._released(level, release)

    def _released(self, level: _Level, release: _Release) -> None:
        if not level.busy:
            return
        level.busy = False
        if release.log_end > self._store.flushed_offset:
            level.unflushed.append((release.log_end, level.offset))
        level.offset = release.end
        level.ahead = frozenset(offset for offset in release.stored if offset > release.end)
        if self._running:
            self._sleep(level, RETRY_MS if release.has_failed else level.next_due_ms - self._clock())


def _facts(level: _Level, queue_offset: int, result: PutResult) -> dict[str, Any]:
    """Return the facts of a message that its topic can never take; its waiting copy can still be read at its offset."""
    return {
        "delay_level": level.level,
        "offset": queue_offset,
        "topic": result.topic,
        "message_id": result.message.property_map.get(PropertyName.UNIQ_KEY, ""),
        "status": result.status.name,
    }


def _without_light_queues(message: OutgoingMessage) -> OutgoingMessage:
    """Return a message that only its topic shows: its light queues would be one too many."""
    properties = dict(message.property_map)
    del properties[PropertyName.INNER_MULTI_DISPATCH]
    return restated(message, message.topic, message.queue_id, build_properties(properties), properties)


def _cancel(level: _Level) -> None:
    if level.call is not None and level.call.active():
        level.call.cancel()
    level.call = None
