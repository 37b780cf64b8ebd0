"""The revive topic: every pop and acknowledgement is a record there, and the open check points are the records' sum.

A record is written to the topic itself at once, not through a timer as upstream does. The memory (``revival``) decides
when messages are delivered again; a restart fills the memory from the records after the saved position. Records that
come through a timer, from Apache RocketMQ's time with the directory, are read in the same way.

The saved position (``consumerOffset.json``, group CID_RMQ_SYS_REVIVE_GROUP) is upstream's value: the last record that
is no longer needed. The records of open check points are needed, and the newest ``state`` record of each queue that a
group consumes in order: a promoted slave has log and position, and not ``consumerOrderInfo.json``. ``compact`` keeps
the position near the end.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from gateway.delivery.pop.check_points import CheckPoints
from gateway.delivery.pop.order import Key as OrderKey
from gateway.delivery.pop.order import OrderInfo, OrderTable
from gateway.delivery.surroundings import DeliverySurroundings
from gateway.metadata.names import revive_topic
from gateway.metadata.offsets import NOT_KNOWN, ConsumerOffsets
from gateway.settings.broker import BrokerSettings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutOutcome, PutResult
from gateway.telemetry.logs import EventLog
from wire.bodies.fastjson import build_json
from wire.disk import revive_log as disk
from wire.disk.config_json import OrderInfoEntry
from wire.disk.revive_log import (
    AckRecord,
    BatchAckRecord,
    CheckPointRecord,
    GoneRecord,
    ReviveRecord,
    StateRecord,
)
from wire.errors import BodyError, LayoutError
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage, parse_records

REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""The name of upstream's group that reads the revive topic. Never change: it is on disk."""
MAX_REPLAY: Final = 5_000
"""The number of records, about, of one revive queue that a start reads again.

A needed record further back is written again, unless more than half of the later records are needed: writing these
again would never end.
"""
COMPACTED_AT_ONCE: Final = 256
REPLAYED_AT_ONCE: Final = 2_000
REPLAYED_BYTES: Final = 4 << 20
DELIVER_EARLIER_MS: Final = 1_000
"""The milliseconds by which upstream delivers its records before messages are due again (``ackTimeInterval``)."""

log = EventLog("pop")

Done = Callable[[bool], None]
"""A callback that gets True if records are stored, otherwise False."""


class ReviveMessage(OutgoingMessage):
    """A record of the revive topic on its way to the log, as a message with the parsed record."""

    __slots__ = ("record",)

    record: ReviveRecord


class ReviveLog:
    """The writer and reader of the revive topic."""

    def __init__(
        self,
        store: MessageStore,
        offsets: ConsumerOffsets,
        check_points: CheckPoints,
        orders: OrderTable,
        settings: BrokerSettings,
        surroundings: DeliverySurroundings,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._points = check_points
        self._orders = orders
        self._states = _StateRecords()
        self._topic = revive_topic(settings.broker_cluster_name)
        self._broker_name = settings.broker_name
        self._host = surroundings.store_host
        self._clock_ms = surroundings.clock_ms
        self._queues = settings.revive_queue_num
        """The number of queues of the revive topic to which records are written."""
        self._last: dict[int, int] = {}
        self._turn = 0
        self._compacting = 0
        self._rewritten_end = 0
        """The commit log offset after the last record that ``compact`` wrote."""
        self._misplaced: dict[int, int] = {}
        """The offset of the last ``state`` record in each revive queue that is not the record's own any more."""

    def next_queue(self) -> int:
        """Return the revive queue for the next pop."""
        self._turn = (self._turn + 1) % self._queues
        return self._turn

    # -- writing --------------------------------------------------------------------------------------------

    def append(
        self, records: Sequence[ReviveRecord], queue_id: int, done: Done, messages: Sequence[OutgoingMessage] = ()
    ) -> None:
        """Write records, and messages with them: all of them or none.

        :param done: called when they are as durable as ``flushDiskType`` promises, or when they are not stored. Records
            that too few slaves have are stored, and applied later.
        """
        self._append([*messages, *(self._message(record, queue_id) for record in records)], done)

    def append_states(self, states: Sequence[StateRecord], done: Done) -> None:
        """Write positions of groups like ``append``: those of one queue go to one revive queue.

        So whoever reads a record that is no longer needed also reads the record that replaced or ended it. Where an
        earlier build, or another ``reviveQueueNum``, chose another revive queue, ``compact`` moves the saved position
        past the records there.
        """
        self._append([self._message(state, self._queue_of(state)) for state in states], done)

    def _queue_of(self, state: StateRecord) -> int:
        return crc32(f"{state.topic}@{state.group}@{state.queue_id}".encode()) % self._queues

    def _append(self, written: Sequence[OutgoingMessage], done: Done) -> None:
        if len(written) == 1:
            self._store.append(written[0], lambda result: self._stored([result], done))
        else:
            self._store.append_all(written, lambda results: self._stored(results, done))

    def append_gone(self, topic: str) -> None:
        """Write that a topic was deleted to every queue, after the records on their way there."""
        for queue_id in sorted({*range(self._queues), *self._last}):
            self.append([GoneRecord(topic=topic)], queue_id, _ignore)

    def _stored(self, results: Sequence[PutResult], done: Done) -> None:
        last = results[-1]
        stored = last.status.is_stored
        if stored:
            self._offsets.applied_end = last.commit_log_offset + last.size
            for result in results:
                self._announce(result)
        else:
            log.error("pop records not stored", records=len(results), status=last.status.name)
        done(stored)

    def _announce(self, result: PutResult) -> None:
        """Let the messages of a check point be acknowledged while slaves do not have the check point."""
        message = result.message
        if result.queue_offset <= self._last.get(result.queue_id, -1):
            return  # it is applied already
        if isinstance(message, ReviveMessage) and isinstance(message.record, CheckPointRecord):
            self._points.announce(message.record, result.queue_id)

    def _message(self, record: ReviveRecord, queue_id: int) -> ReviveMessage:
        now_ms = self._clock_ms()
        tag, deliver_at_ms = _TAGS[type(record)], now_ms
        if isinstance(record, CheckPointRecord):
            deliver_at_ms = record.popped_at_ms + record.invisible_ms - DELIVER_EARLIER_MS
        properties = f"TAGS\x01{tag}\x02TIMER_DELIVER_MS\x01{deliver_at_ms}\x02".encode()
        message = ReviveMessage(
            self._topic, queue_id, 0, 0, now_ms, self._host, self._host, 0, 0, record.build(), properties, {"TAGS": tag}
        )
        message.record = record
        return message

    # -- reading --------------------------------------------------------------------------------------------

    def arrived(self, outcomes: Iterable[PutOutcome]) -> None:
        """Apply new records that are in the log."""
        topic = self._topic
        for outcome in outcomes:
            if outcome.topic == topic:
                for result in outcome.each():
                    self._arrived(result)

    def _arrived(self, result: PutResult) -> None:
        message = result.message
        if isinstance(message, ReviveMessage):
            record: ReviveRecord | None = message.record
        else:
            record = self._parsed(message.property_map, message.body)
        self._last[result.queue_id] = result.queue_offset
        if record is not None:
            self._apply(record, result.queue_id, result.queue_offset)

    def rebuild(self, orders_end: int) -> int:
        """Read the needed part of the topic after a start; return the number of records. Blocks.

        :param orders_end: the offset up to which the log is in the order table; -1 if nothing is.
        """
        self.forget_cut()
        queues = [queue_id for topic, queue_id in self._store.queues() if topic == self._topic]
        newest = _Newest()
        count = sum(self._replay(queue_id, newest) for queue_id in queues)  # also those the setting had once
        for (topic, group, queue_id), (at, next_offset) in newest.offsets.items():
            # Else it was saved, and perhaps changed since.
            if at >= self._offsets.applied_end >= 0 and at > newest.gone.get(topic, -1):
                self._offsets.take_reset(group, topic, queue_id)  # it was taken before this pop, and not saved since
                self._offsets.keep(group, topic, queue_id, next_offset)
        for topic, at in newest.gone.items():
            if at >= orders_end:
                self._orders.forget_topic(topic)
        self._states = _StateRecords()  # revive queues were read one after the other, and topics are gone
        for key, state in sorted(newest.orders.items(), key=_revive_offset):
            if state.at >= orders_end and state.at > newest.gone.get(key[0], -1):
                self._orders.put(key, _order_of(state.order))
            if self._orders.get(key) is not None:
                self._states.put(key, state.revive_queue_id, state.revive_offset)
        self._offsets.applied_end = self._store.stored_end
        return count

    def forget_cut(self) -> None:
        """Forget the saved position if the log was cut: records before the position may be needed again."""
        if self._offsets.applied_end > self._store.stored_end:
            self._offsets.remove(REVIVE_GROUP, self._topic)
            self._offsets.applied_end = NOT_KNOWN

    def _replay(self, queue_id: int, newest: _Newest) -> int:
        store, topic = self._store, self._topic
        end = store.max_offset(topic, queue_id)
        saved = min(self._offsets.query(REVIVE_GROUP, topic, queue_id), end - 1)
        offset = max(saved + 1, store.min_offset(topic, queue_id), 0)
        self._last[queue_id] = offset - 1
        count = 0
        while offset < end:
            result = store.get_messages(topic, queue_id, offset, REPLAYED_AT_ONCE, REPLAYED_BYTES)
            for message in parse_records(b"".join(result.parts)):
                record = self._parsed(message.property_map, message.body)
                if record is not None:
                    self._apply(record, queue_id, message.queue_offset)
                    newest.note(record, message.commit_log_offset, queue_id, message.queue_offset)
                if isinstance(record, StateRecord) and self._queue_of(record) != queue_id:
                    self._misplaced[queue_id] = message.queue_offset
                self._last[queue_id] = message.queue_offset
                count += 1
            if result.next_begin_offset <= offset:
                log.error("record of the revive topic not read", queue=queue_id, offset=offset, reason=result.remark)
            offset = max(result.next_begin_offset, offset + 1)
        return count

    def _parsed(self, properties: object, body: bytes) -> ReviveRecord | None:
        tag = properties.get(PropertyName.TAGS) if isinstance(properties, dict) else None
        parse = _PARSERS.get(tag)
        if parse is None:
            return None
        try:
            return parse(body)
        except LayoutError as error:
            log.warning("record of the revive topic passed over", tag=tag, reason=str(error))
            return None

    def _apply(self, record: ReviveRecord, queue_id: int, offset: int) -> None:
        if isinstance(record, CheckPointRecord):
            self._points.put(record, queue_id, offset)
        elif isinstance(record, AckRecord):
            self._points.ack(_key(record), (record.offset,))
        elif isinstance(record, BatchAckRecord):
            self._points.ack(_key(record), record.offsets)
        elif isinstance(record, GoneRecord):
            self._points.forget_topic(record.topic, queue_id)
        elif isinstance(record, StateRecord) and record.order is not None:
            key = (record.topic, record.group, record.queue_id)
            if record.order:
                self._states.put(key, queue_id, offset)
            else:
                self._states.drop(key)

    # -- what is saved --------------------------------------------------------------------------------------

    def needless(self) -> dict[int, int]:
        """Return, for each revive queue, the last record that a start does not need."""
        return {queue_id: self._needless(queue_id) for queue_id in self._last}

    def save_position(self, needless: dict[int, int]) -> None:
        """Put ``needless`` into the consumer offsets, which are saved later."""
        for queue_id, offset in needless.items():
            if self._offsets.query(REVIVE_GROUP, self._topic, queue_id) != offset:
                self._offsets.keep(REVIVE_GROUP, self._topic, queue_id, offset)

    def _needless(self, queue_id: int) -> int:
        needed = [offset for _, offset in self._states.oldest(queue_id, 1)]
        point = self._points.first_open(queue_id)
        if point is not None:
            needed.append(point.revive_offset)
        return min(needed) - 1 if needed else self._last[queue_id]

    def compact(self) -> None:
        """Write old records that are still needed again, so that a start need not read much; call every second.

        Nothing is written again before the records of the last call are applied: slaves may lack them for long.
        """
        store = self._store
        if self._compacting or store.dispatch_behind_bytes or store.stored_end < self._rewritten_end:
            return
        for queue_id, last in self._last.items():
            records = []
            most = max(MAX_REPLAY, 2 * (self._points.open_in(queue_id) + self._states.count(queue_id)))
            before = max(last - most, self._misplaced.get(queue_id, -1) + 1)
            for point in self._points.oldest(queue_id, COMPACTED_AT_ONCE):
                if point.revive_offset >= before:
                    break
                if not point.reviving:
                    records.append(point.record(self._broker_name))
            if records:
                self._compacting += 1
                self.append(records, queue_id, self._compacted)
            states = self._needed_states(queue_id, before)
            if states:
                self._compacting += 1
                self.append_states(states, self._compacted)

    def _needed_states(self, revive_queue_id: int, before: int) -> list[StateRecord]:
        """Return the states to be written again whose records are older than ``before``; forget others as old."""
        states: list[StateRecord] = []
        for key, offset in self._states.oldest(revive_queue_id, COMPACTED_AT_ONCE):
            if offset >= before:
                break
            info = self._orders.get(key)
            if info is None or info.is_over(self._clock_ms()):
                self._states.drop(key)
            else:
                states.append(state_of(key, None, info))
        return states

    def _compacted(self, stored: bool) -> None:
        self._compacting -= 1
        if stored:
            self._rewritten_end = self._offsets.applied_end


class _StateRecords:
    """The place of the newest ``state`` record of each queue that a group consumes in order, by revive queue."""

    def __init__(self) -> None:
        self._places: defaultdict[int, OrderedDict[OrderKey, int]] = defaultdict(OrderedDict)

    def put(self, key: OrderKey, revive_queue_id: int, revive_offset: int) -> None:
        """Take a record, which is the newest of its revive queue."""
        self.drop(key)
        self._places[revive_queue_id][key] = revive_offset

    def drop(self, key: OrderKey) -> None:
        """Forget a record, because it is not needed any more."""
        for places in self._places.values():
            places.pop(key, None)

    def count(self, revive_queue_id: int) -> int:
        """Return how many records of a revive queue are needed."""
        return len(self._places[revive_queue_id])

    def oldest(self, revive_queue_id: int, count: int) -> list[tuple[OrderKey, int]]:
        """Return up to ``count`` needed records of a revive queue, the oldest first, with their offsets there."""
        return list(islice(self._places[revive_queue_id].items(), count))


class _NewestState(NamedTuple):
    """A ``state`` record: its offset in the log, its order information, and its place in the revive topic."""

    at: int
    order: str
    revive_queue_id: int
    revive_offset: int


class _Newest:
    """The newest record of the whole topic for each queue, since revive queues are read one after the other."""

    def __init__(self) -> None:
        self.offsets: dict[OrderKey, tuple[int, int]] = {}
        self.orders: dict[OrderKey, _NewestState] = {}
        self.gone: dict[str, int] = {}
        """The commit log offset of the newest record that says that a topic was deleted, by topic."""

    def note(self, record: ReviveRecord, at: int, revive_queue_id: int, revive_offset: int) -> None:
        """Take a record at this offset of the log, and of its revive queue."""
        if isinstance(record, GoneRecord):
            self.gone[record.topic] = max(self.gone.get(record.topic, -1), at)
        if not isinstance(record, CheckPointRecord | StateRecord):
            return
        key = (record.topic, record.group, record.queue_id)
        if record.next_offset is not None:
            self.offsets[key] = max(self.offsets.get(key, (-1, 0)), (at, record.next_offset))
        if isinstance(record, StateRecord) and record.order is not None:
            state = _NewestState(at, record.order, revive_queue_id, revive_offset)
            self.orders[key] = max(self.orders.get(key, state), state)


def _ignore(_stored: bool) -> None:
    """Do nothing: the topic is gone in any case."""


def state_of(key: OrderKey, next_offset: int | None, info: OrderInfo | None) -> StateRecord:
    """Return the record of a group's position in a queue that it consumes in order."""
    topic, group, queue_id = key
    order = "" if info is None else build_json(info.entry().to_json(), java_form=False).decode()
    return StateRecord(topic=topic, group=group, queue_id=queue_id, next_offset=next_offset, order=order)


def _revive_offset(item: tuple[OrderKey, _NewestState]) -> int:
    return item[1].revive_offset


def _order_of(text: str) -> OrderInfo | None:
    if not text:
        return None
    try:
        return OrderInfo.of_entry(OrderInfoEntry.parse(text))
    except BodyError as error:
        log.warning("order information of the revive topic passed over", reason=str(error))
        return None


def _key(record: AckRecord | BatchAckRecord) -> tuple[str, str, int, int, int]:
    return record.topic, record.group, record.queue_id, record.start_offset, record.popped_at_ms


_TAGS: Final[dict[type[ReviveRecord], str]] = {
    CheckPointRecord: disk.CHECK_POINT_TAG,
    AckRecord: disk.ACK_TAG,
    BatchAckRecord: disk.BATCH_ACK_TAG,
    StateRecord: disk.STATE_TAG,
    GoneRecord: disk.GONE_TAG,
}
_PARSERS: Final[dict[str | None, Callable[[bytes], ReviveRecord]]] = {
    disk.CHECK_POINT_TAG: disk.CheckPointRecord.parse,
    disk.ACK_TAG: disk.AckRecord.parse,
    disk.BATCH_ACK_TAG: disk.BatchAckRecord.parse,
    disk.STATE_TAG: disk.StateRecord.parse,
    disk.GONE_TAG: disk.GoneRecord.parse,
}
