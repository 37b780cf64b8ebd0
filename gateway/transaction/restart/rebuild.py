"""Find again in the log, at start and before the first check, what is pending and what was decided.

1. Op records: which half messages are settled, and, in those written here, how.
2. Half messages from the stored half offset on: those that no op record names are open.
3. Final messages without an op record, left by a crash between the two: their half messages are committed.
   Such messages can only be in the last part of the log, and in the queues that open half messages are meant for.
   State stores without op records (``state_stores``) know 1. themselves, and 3. is in the log after their position.
   A state store that knows nothing, and one that is not believed because a copied or cut log is taken over: the log
   is searched for the evidence of every kind of store.

The check journal, read by ``start``, adds how often the open ones were checked and when they are due next.

Directories of Apache RocketMQ (4.9 and 5.x) are understood. Half messages below its stored half offset are settled. A
half message that Apache RocketMQ wrote again for a check is the same transaction as its earlier copies, and the newest
copy stands for all copies. Nothing is written here: the caller writes op records for ``LogFindings.unrecorded``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gateway.clock import END_OF_TIME_MS
from gateway.errors import GatewayError
from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from gateway.metadata.topics import readable_queue
from gateway.telemetry.logs import EventLog
from gateway.transaction.checks.check_journal import Check
from gateway.transaction.needs import KnownOffsets, LogAccess
from gateway.transaction.records.half_messages import HALF_QUEUE_ID, real_place
from gateway.transaction.records.op_messages import OP_QUEUE_ID, OUTCOMES, parse_op
from gateway.transaction.records.property_scan import (
    COMMIT_LOG_OFFSET,
    QUEUE_OFFSET,
    STORED_AT_MS,
    TOTAL_SIZE,
    Head,
    parse_head,
    scan_properties,
)
from gateway.transaction.records.queue_records import END_OF_LOG, MessageUnreadable, QueueRecords, log_offset
from gateway.transaction.state_stores.changes import UNKNOWN, Known, Prepared, Settled, TransactionStates
from gateway.transaction.state_stores.outcome_records import outcomes_from
from gateway.transaction.states import OPEN_STATES, State
from gateway.transaction.tables.op_positions import OpPositions
from gateway.transaction.tables.outcomes import Outcomes
from wire.bodies.topics import TopicConfig
from wire.disk.consume_queue import UNIT
from wire.errors import RecordError
from wire.message.flags import SysFlag, transaction_kind
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, parse_record
from wire.message.record_fields import (
    prepared_transaction_offset_at,
    queue_offset_at,
    sys_flag_at,
    total_size_at,
)

log = EventLog("transaction")

OFFSETS_GROUP = TRANSACTION_GROUP
"""The group of the consumer offsets in which Apache RocketMQ keeps the progress of its checks.

Never change: on disk.
"""
REMEMBERED_OPS = 10_000
"""The number of op records before the stored op offset that are also read, so that late repeats are recognised."""
OP_LAG_MS = 60_000
"""The longest time by which another broker's op record may follow its final message: 20 times the batch interval."""

DOUBTED_UNITS = 64
"""The number of units that are checked before the start of a queue, if the queue starts after the stored offset."""
MAX_TOLD = 20
"""The largest number of half messages that one line of the program's log names."""
MAX_COPIES = 64
"""The largest number of records with one key that are looked at. 15 checks make at most 16 copies."""
SETTLED_STATES = frozenset(State) - OPEN_STATES - {State.NONE}

_MAX_COUNT_DIGITS = 9
_MAX_OFFSET_DIGITS = 19
_USUAL_PROPERTIES = frozenset({PropertyName.PGROUP, PropertyName.REAL_TOPIC, PropertyName.REAL_QID})
"""The properties of a half message that no other broker checked and that has no immunity time: group, topic and queue.
"""
_CHECK_TIMES = PropertyName.TRANSACTION_CHECK_TIMES
_FIRST_OFFSET = PropertyName.TRAN_PREPARED_QUEUE_OFFSET


@dataclass(slots=True)
class OpenHalf:
    """An open half message that was found. Not frozen, because a start makes a million of them."""

    offset: int
    log_offset: int
    size: int
    stored_at_ms: int
    group: str
    immunity: str | None
    checks: int
    topic: str = ""


@dataclass(slots=True)
class LogFindings:
    """The findings in the log.

    :param half_start: half messages below are settled; ``half_end`` is the end of the half queue.
    :param unrecorded: settled half messages whose op record is missing and has to be written.
    :param copies: unique key to the half offset of the copy that stands for the transaction.
    :param position: the state store knows everything in the commit log below this offset.
    :param prepared: half messages that the log has after ``position``.
    :param settled: outcomes that the log has after ``position``.
    :param lost_ops: the number of op records that a repair replaced, or that are in no log.
    :param uncertain: pending half messages that a lost op record may have named as rolled back.
    """

    half_start: int = 0
    half_end: int = 0
    op_start: int = 0
    op_end: int = 0
    unrecorded: list[tuple[int, State]] = field(default_factory=list)
    copies: dict[str, int] = field(default_factory=dict)
    position: int = UNKNOWN
    prepared: list[Prepared] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    half_count: int = 0
    final_count: int = 0
    lost_ops: int = 0
    uncertain: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSources:
    """The sources that a start reads."""

    store: LogAccess
    offsets: KnownOffsets
    topics: Mapping[str, TopicConfig]
    """The existing topics. A final message may be in another queue than the one its half message names."""
    mark: int = 0
    """The commit log offset below which every final message has its op record (check journal)."""
    first: int = 0
    """The half offset below which everything was settled when the state store was begun."""
    states: TransactionStates | None = None
    """The state store that keeps pending half messages instead of op records; None for op records."""
    takes_over: bool = False
    """True if ``states`` is not asked: it may be older than the log, or know records that were cut from it.

    Outcomes may then be in hidden records beside op records: the log may be of a broker with a state store. That holds
    until the op records that a takeover found missing are on disk.
    """


class HalvesFound(Protocol):
    """A listener for the half messages that a start finds."""

    def opened(self, half: OpenHalf) -> None:
        """Take an open half message. The calls come in the order of the half queue."""

    def closed(self, offset: int, state: State) -> None:
        """Note that an open half message is settled after all."""


class Rebuild:
    """Read the queues of one store; blocks.

    :param outcomes: gets the states that op records name; ``told`` puts the other states there.
    :param ops: gets the places of the op records.
    :param told: is notified of the half messages.
    """

    def __init__(self, sources: StartSources, outcomes: Outcomes, ops: OpPositions, told: HalvesFound) -> None:
        self._store = sources.store
        self._offsets = sources.offsets
        self._mark = sources.mark if sources.mark <= sources.store.max_commit_log_offset else 0
        self._first = sources.first
        self._states = sources.states
        self._takes_over = sources.takes_over
        self._configs = sources.topics
        self._outcomes = outcomes
        self._ops = ops
        self._told = told
        self._known = Known()
        self._found = LogFindings()
        self._op_times: list[tuple[int, int]] = []
        self._lost_below = 0
        self._open_offsets = array("q")
        self._open_places = array("q")
        self._targets: set[tuple[str, int]] = set()
        self._topics: dict[tuple[str | None, str | None], str] = {}
        self._families: dict[str, list[int]] = {}

    def run(self) -> LogFindings:
        """Read everything, and notify ``told`` of the half messages during the reading.

        :raises GatewayError: a message that decides about transactions cannot be read.
        """
        found = self._found
        found.half_start, found.half_end = self._range(HALF_TOPIC, HALF_QUEUE_ID)
        found.half_start = min(max(found.half_start, self._first), found.half_end)
        found.op_start, found.op_end = self._range(OP_HALF_TOPIC, OP_QUEUE_ID)
        if self._states is not None and not self._takes_over:
            self._ask_states(self._states)
        if self._known.position == UNKNOWN:
            self._read_ops()
        self._read_halves()
        self._join_copies()
        if self._states is None:
            self._find_finals()
        if self._states is not None or self._takes_over:
            self._find_outcomes()
        return found

    def _range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return where to read: from the stored offset on, within the units that the queue has."""
        low = max(self._store.min_offset(topic, queue_id), 0)
        stored = self._offsets.query(OFFSETS_GROUP, topic, queue_id)
        if 0 <= stored < low:
            # Needed units seem to be deleted. Perhaps they are damaged and lead to a place before the start of the log.
            first = max(stored, low - DOUBTED_UNITS)
            self._store.mend_queue(topic, queue_id, first, low - first)
            low = max(self._store.min_offset(topic, queue_id), 0)
        end = max(self._store.max_offset(topic, queue_id), low)
        return (low if stored < 0 else min(max(stored, low), end)), end

    # -- 1. op records --------------------------------------------------------------------------------------

    def _read_ops(self) -> None:
        low = max(self._store.min_offset(OP_HALF_TOPIC, OP_QUEUE_ID), 0)
        first = max(low, self._found.op_start - REMEMBERED_OPS)
        needed_from = self._found.op_start
        try:
            self._read_ops_in(first, needed_from)
        except GatewayError as error:
            # No pending half message depends on these records; repeated outcomes are compared with the log instead.
            log.warning("older op records cannot be read", first=first, end=needed_from, reason=str(error))
        absent = self._read_ops_in(needed_from, self._found.op_end)
        if absent:
            self._lost_op(END_OF_LOG, absent)

    def _read_ops_in(self, first: int, end: int) -> int:
        """Note what the op records say; return how many of the records are no longer in any log."""
        records = QueueRecords(self._store, OP_HALF_TOPIC, OP_QUEUE_ID, first, end)
        for part, at in records:
            record = _parsed(part, at, OP_HALF_TOPIC)
            if b"\x00" in record.properties:
                # Cut short by a power failure after the body, where no checksum applies: never acknowledged.
                log.error("torn op record left out", queue_offset=record.queue_offset)
                continue
            self._op_times.append((record.stored_at_ms, record.commit_log_offset))
            settled = parse_op(record.body, record.property_map.get(OUTCOMES))
            for offset, state in settled:
                self._note_settled(offset, state, record.queue_offset)
            if not settled and record.queue_offset >= self._found.op_start:
                self._lost_op(record.commit_log_offset, 1)  # a repair replaced the record
        return records.absent

    def _lost_op(self, place: int, count: int) -> None:
        """Note lost op records below this commit log offset; nobody knows which half messages they named."""
        self._found.lost_ops += count
        self._lost_below = max(self._lost_below, place)

    def _note_settled(self, offset: int, state: State, op_offset: int) -> None:
        if offset >= self._found.half_end:
            return  # no such half message: lost in a crash, or from another directory
        self._outcomes.put(offset, state)
        self._ops.note(offset, op_offset)

    def _is_settled(self, offset: int) -> bool:
        return self._outcomes.state(offset) in SETTLED_STATES

    def _ask_states(self, states: TransactionStates) -> None:
        """Take over what a state store knows. For everything after its position the log is read."""
        found = self._found
        known = self._known = states.load(found.half_start, found.half_end, self._store.max_commit_log_offset)
        found.position = known.position
        found.half_start = min(max(found.half_start, known.first), found.half_end)
        for offset, state in known.settled:
            self._outcomes.put(offset, state)

    # -- 2. half messages -----------------------------------------------------------------------------------

    def _read_halves(self) -> None:
        found = self._found
        state, first_unknown = self._outcomes.state, self._outcomes.end
        halves = QueueRecords(self._store, HALF_TOPIC, HALF_QUEUE_ID, found.half_start, found.half_end)
        for part in halves.parts():
            at = count = 0
            part_bytes = len(part)
            while at < part_bytes:
                count += 1
                try:
                    head, raw = parse_head(part, at)
                except RecordError as error:
                    raise _unreadable(part, at, HALF_TOPIC, error) from error
                if head[QUEUE_OFFSET] < first_unknown and state(head[QUEUE_OFFSET]) in SETTLED_STATES:
                    self._note_family(part, at)
                else:
                    self._open(part, at, head, raw)
                at += head[TOTAL_SIZE]
            found.half_count += count

    def _open(self, part: bytes, at: int, head: Head, raw: bytes) -> None:
        properties = scan_properties(raw)
        offset, place = head[QUEUE_OFFSET], head[COMMIT_LOG_OFFSET]
        self._open_offsets.append(offset)
        self._open_places.append(place)
        target = properties.get(PropertyName.REAL_TOPIC), properties.get(PropertyName.REAL_QID)
        immunity, checks, is_copy = None, 0, False
        if properties.keys() != _USUAL_PROPERTIES:
            immunity = properties.get(PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS)
            checks, is_copy = _checks(properties), _is_copy(properties)
        half = OpenHalf(
            offset,
            place,
            head[TOTAL_SIZE],
            head[STORED_AT_MS],
            properties.get(PropertyName.PGROUP, ""),
            immunity,
            checks,
            self._topics.get(target) or self._target_topic(target, properties),
        )
        self._told.opened(half)
        if self._states is not None:
            self._note(self._states, half)
        if is_copy:
            self._add_copy(parse_record(part, at, with_body=False))

    def _target_topic(self, target: tuple[str | None, str | None], properties: Mapping[str, str]) -> str:
        """Return the real topic of an open half message, or an empty text if it names none.

        The queue that the half message names is noted, so that it is searched for final messages.
        """
        place = real_place(properties)
        if place is None:
            return ""
        self._targets.add(place)
        config = self._configs.get(place[0])
        if config is not None:
            self._targets.add((place[0], readable_queue(config, place[1])))
        self._topics[target] = place[0]
        return place[0]

    def _note(self, states: TransactionStates, open_half: OpenHalf) -> None:
        """Notify the state store of an open half message, or keep the half message for a later notification."""
        place = open_half.log_offset
        half = Prepared(open_half.offset, place, open_half.size, open_half.stored_at_ms, open_half.group)
        if place >= self._known.position:
            self._found.prepared.append(half)
        else:
            states.found(half)

    # -- copies that Apache RocketMQ made -------------------------------------------------------------------

    def _note_family(self, part: bytes, at: int) -> None:
        """Note a settled half message that is a copy, because its earlier copies are settled with it."""
        if part.find(_CHECK_TIMES.encode(), at, at + total_size_at(part, at)) < 0:
            return
        try:
            record = parse_record(part, at, with_body=False)
        except RecordError:
            return
        if _is_copy(record.property_map):
            self._add_copy(record)

    def _add_copy(self, record: StoredMessage) -> None:
        key = record.unique_key
        if key is None:
            return
        family = self._families.setdefault(key, [])
        family.append(record.queue_offset)
        first = record.property_map.get(_FIRST_OFFSET)
        if first is not None and first.isdecimal() and len(first) <= _MAX_OFFSET_DIGITS:
            family.append(int(first))

    def _join_copies(self) -> None:
        """Let the newest copy of each transaction stand for all copies, or settle all copies if one is settled."""
        for key, offsets in self._families.items():
            members = sorted({*offsets, *self._earlier_copies(key, max(offsets))})
            if any(map(self._is_settled, members)):
                state = State.SETTLED
                close = members
            else:
                state = State.REPLACED
                close = members[:-1]
                self._found.copies[key] = members[-1]
            for offset in close:
                self._close(offset, state)

    def _earlier_copies(self, key: str, newest: int) -> list[int]:
        """Return the half offsets of the records with this key up to a copy, found with the key index.

        A record with zero checks is where somebody resumed the transaction. Everything before that record is settled.
        """
        found = [
            record
            for record in self._store.query_by_key(HALF_TOPIC, key, MAX_COPIES, 0, END_OF_TIME_MS)
            if record.unique_key == key and record.queue_offset <= newest
        ]
        found.sort(key=lambda record: record.queue_offset)
        offsets: list[int] = []
        for record in found:
            if record.property_map.get(_CHECK_TIMES) == "0":
                offsets = []
            offsets.append(record.queue_offset)
        return offsets

    def _close(self, offset: int, state: State, record: tuple[int, int] | None = None) -> None:
        """Settle an open half message whose op record is missing.

        :param record: the commit log offset and size of the record that settles the half message.
        """
        index = bisect_left(self._open_offsets, offset)
        if index == len(self._open_offsets) or self._open_offsets[index] != offset:
            return
        if self._is_settled(offset):
            return
        if self._states is None:
            self._found.unrecorded.append((offset, state))
        else:
            place = self._open_places[index]
            self._found.settled.append(Settled(offset, place, state, *(record or (place, 0))))
        self._told.closed(offset, state)

    # -- 3. final messages without op record ----------------------------------------------------------------

    def _find_finals(self) -> None:
        first_open = next(
            (index for index, offset in enumerate(self._open_offsets) if not self._is_settled(offset)), None
        )
        if first_open is None:
            return
        start = self._open_places[first_open]
        if not self._found.lost_ops:  # otherwise an old final message may be the only evidence
            start = max(start, self._mark, self._op_bound())
        for topic, queue_id in sorted(self._targets):
            self._find_finals_in(topic, queue_id, start)
        for key, offset in list(self._found.copies.items()):
            # A producer may have committed an earlier copy; the half message of that copy is not read any more.
            if not self._is_settled(offset) and self._was_committed(key, offset):
                self._close(offset, State.COMMITTED)
        if self._found.lost_ops:
            self._tell_uncertain()

    def _tell_uncertain(self) -> None:
        """Log which transactions may be pending again, because only a lost op record named their rollback."""
        found = self._found
        found.uncertain = pending = [
            offset
            for offset, place in zip(self._open_offsets, self._open_places, strict=True)
            if place < self._lost_below and not self._is_settled(offset)
        ]
        log.warning(
            "op records were lost: commits are known by their final messages, what was rolled back is pending again",
            lost_op_records=found.lost_ops,
            committed_by_final_message=len(found.unrecorded),
            pending=len(pending),
            half_offsets=f"{pending[:MAX_TOLD]}{' ...' if len(pending) > MAX_TOLD else ''}",
        )

    def _op_bound(self) -> int:
        """Return the commit log offset below which final messages have their op records; 0 if not known."""
        if not self._op_times:
            return 0
        newest_ms = self._op_times[-1][0] - OP_LAG_MS
        return max((place for stored_at_ms, place in self._op_times if stored_at_ms < newest_ms), default=0)

    def _find_outcomes(self) -> None:
        """Find the outcomes that the log has after the position of the state store."""
        first_open = next(
            (index for index, offset in enumerate(self._open_offsets) if not self._is_settled(offset)), None
        )
        if first_open is None:
            return
        for record, state in outcomes_from(self._store, max(self._known.position, self._open_places[first_open])):
            place = record.prepared_transaction_offset
            index = bisect_left(self._open_places, place)
            if index < len(self._open_places) and self._open_places[index] == place:
                self._close(self._open_offsets[index], state, (record.commit_log_offset, record.total_size))

    def _find_finals_in(self, topic: str, queue_id: int, start: int) -> None:
        low = max(self._store.min_offset(topic, queue_id), 0)
        end = self._store.max_offset(topic, queue_id)
        first = low + bisect_left(
            range(low, end), start, key=lambda offset: log_offset(self._store, topic, queue_id, offset)
        )
        for part, at in QueueRecords(self._store, topic, queue_id, first, end, _finals):
            self._found.final_count += 1
            place = prepared_transaction_offset_at(part, at)
            index = bisect_left(self._open_places, place)
            if index < len(self._open_places) and self._open_places[index] == place:
                self._close(self._open_offsets[index], State.COMMITTED)

    def _was_committed(self, key: str, offset: int) -> bool:
        index = bisect_left(self._open_offsets, offset)
        half = self._store.message_at(self._open_places[index])
        place = None if half is None else real_place(half.property_map)
        if place is None:
            return False
        return any(
            transaction_kind(record.sys_flag) == SysFlag.TRANSACTION_COMMIT and record.unique_key == key
            for record in self._store.query_by_key(place[0], key, MAX_COPIES, 0, END_OF_TIME_MS)
        )


def _is_copy(properties: Mapping[str, str]) -> bool:
    """Return whether Apache RocketMQ wrote a half message again. A resumed half message starts again and is no copy."""
    return properties.get(_CHECK_TIMES, "0") != "0" or _FIRST_OFFSET in properties


def _checks(properties: Mapping[str, str]) -> int:
    """Return the number of checks that another broker counted in the half message."""
    text = properties.get(_CHECK_TIMES, "")
    return int(text) if text.isdecimal() and len(text) < _MAX_COUNT_DIGITS else 0


def _finals(data: bytes, start: int, units: bytes, _least: int) -> tuple[list[int], int]:
    """Return which records of a buffer were committed, and how many records were looked at: all."""
    kinds = [transaction_kind(sys_flag_at(data, position - start)) for position, _, _ in UNIT.iter_unpack(units)]
    return [number for number, kind in enumerate(kinds) if kind == SysFlag.TRANSACTION_COMMIT], len(kinds)


def _parsed(part: bytes, at: int, topic: str) -> StoredMessage:
    try:
        return parse_record(part, at)
    except RecordError as error:
        raise _unreadable(part, at, topic, error) from error


def _unreadable(part: bytes, at: int, topic: str, error: RecordError) -> MessageUnreadable:
    return MessageUnreadable(topic, 0, queue_offset_at(part, at), str(error))


def journal_check(check: Check | None, half: OpenHalf) -> tuple[int, int] | None:
    """Return the due time and checks of an open half message from its journal entry.

    None if the entry is missing or belongs to another half message.
    """
    if check is None or check[1] != half.log_offset:
        return None
    return check[2], check[3]
