"""The place where a half message gets its outcome: the first outcome wins, and only a durable outcome counts.

Outcomes gather until the next write of the log. The gathered outcomes go into the log in as few appends as possible.
Each append is contiguous:

    final messages of the commits · copies of those given up · one op record that names all of them

The op record comes last, so a log cut short by a crash never has an op record without its final messages. A final
message without an op record counts as committed at the next start (``rebuild``). If an append is refused, its half
messages are pending again. Upstream stores the final message and the op record separately, up to 3 s apart, and does
not check whether the half message already has an outcome.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.metadata.topics import readable_queue
from gateway.store.put_result import PutResult, PutStatus
from gateway.telemetry.logs import EventLog, Repeats
from gateway.transaction.needs import LogAccess, TransactionNeeds
from gateway.transaction.records.final_messages import FinalMessages
from gateway.transaction.records.half_messages import discarded_of, final_of, is_rewritten
from gateway.transaction.records.half_reader import Found, find_whole
from gateway.transaction.records.op_messages import build_op, entry_bytes
from gateway.transaction.replies import (
    FORGOTTEN,
    REPLY_OF,
    SUCCESS,
    Answer,
    Reply,
    Source,
    source_text,
    stored_reply,
    tell,
)
from gateway.transaction.state_stores.outcome_records import Evidence
from gateway.transaction.states import OPEN_STATES, TRANSITIONS, Event, State, next_state
from gateway.transaction.tables.transaction_tables import TransactionTables
from wire.codes import ResponseCode
from wire.message.record import OutgoingMessage, StoredMessage

log = EventLog("transaction")

# Every transaction needs these, and to look up an attribute of an enumeration takes as long as a call.
_PENDING: Final = State.PENDING
_COMMITTED: Final = State.COMMITTED
_COMMIT: Final = Event.COMMIT
_ROLLBACK: Final = Event.ROLLBACK
_DISCARD: Final = Event.DISCARD
_STORED: Final = Event.STORED
_DECIDED: Final = dict(TRANSITIONS[State.PENDING])
"""The state of a half message while its outcome is on the way to the log, by event."""
_TERMINAL: Final = {state: row[Event.STORED] for state, row in TRANSITIONS.items() if Event.STORED in row}
"""The state of a half message after its outcome is stored, by the state before."""
_STOOD_FOR: Final = frozenset({State.NONE, State.REPLACED})

MAX_WITHOUT_COPY: Final = 10_000
"""The number of outcomes without a copy that are remembered, so that a repeat is not answered with success."""


class Decision:
    """One outcome on its way to the log. A plain class for speed, because every transaction makes one."""

    __slots__ = ("answers", "event", "host", "message", "offset", "state")

    def __init__(self, offset: int, event: Event, state: State, message: OutgoingMessage | None, host: bytes) -> None:
        self.offset = offset
        self.event = event
        self.state = state
        self.message = message
        self.host = host
        self.answers: list[Answer] = []


class Settling:
    """Decide outcomes and append them to the log.

    :param evidence: writes other records instead of op records; None: op records are written.
    """

    def __init__(
        self,
        tables: TransactionTables,
        store: LogAccess,
        needs: TransactionNeeds,
        evidence: Evidence | None = None,
    ) -> None:
        self._tables = tables
        self._store = store
        self._log_evidence = evidence
        self._clock_ms = needs.clock_ms
        self._soon = needs.soon
        self._read = needs.read
        self._topics = needs.topics
        self._has_topic = needs.has_topic
        self._final_messages = FinalMessages(store)
        self._refusals = Repeats(needs.clock_ms)
        self._gathered: list[Decision] = []
        self._gathered_bytes = 0  # the bytes of the bodies of the gathered messages
        self._deciding: dict[int, Decision] = {}
        self._idle: list[Callable[[], None]] = []
        self._unstored: list[Decision] = []
        self._unrecorded = 0
        self._without_copy: dict[int, tuple[int, Reply]] = {}  # the end of the op record, by half message
        self.reopened: list[Callable[[int], None]] = []
        """The functions to call with the offset of a half message that is pending again after a failed store."""
        self.moved: list[Callable[[], None]] = []
        """The functions to call when outcomes have become durable, or half messages are pending again."""

    # -- asking ---------------------------------------------------------------------------------------------

    def ask(
        self, half: StoredMessage, event: Event, source: Source, answer: Answer | None = None, reason: str = ""
    ) -> bool:
        """Commit, roll back or give up a half message that was read from the log, with or without its body.

        :param answer: gets the reply when the outcome is durable or refused; None when nobody listens.
        :param reason: why the half message is given up.
        :returns: True if this is the first outcome and is now on its way; False if the outcome is refused or repeated.
        :raises RequestRefused: the topic cannot be made again, or too many reads of the disk wait.
        """
        tables = self._tables
        offset = self._live_offset(half) if tables.copies else half.queue_offset
        state = tables.outcomes.state(offset)
        if state is not _PENDING or offset not in tables.pending:
            self._repeated(half, offset, event, state, source, answer)
            return False
        message = final_of(half) if event is _COMMIT else None
        if event is _COMMIT and (refused := self._unplaced(message, half.queue_offset, source)) is not None:
            tell(answer, refused)
            return False
        decision = self._decision(offset, event, half.store_host)
        if answer is not None:
            decision.answers.append(answer)
        tables.sources.put(offset, source)
        if event is _ROLLBACK or (event is _COMMIT and half.has_body and offset == half.queue_offset):
            decision.message = message
            self._gather(decision)
        else:
            self._read_whole(decision, source, reason)
        return True

    def discard(self, half: StoredMessage, checks: int, reason: str) -> None:
        """Give up a pending half message. A copy with the reason goes to TRANS_CHECK_MAX_TIME_TOPIC."""
        offset = half.queue_offset
        log.warning("half message given up", half_offset=offset, reason=reason, message_id=half.unique_key)
        self._decide(offset, Event.DISCARD, discarded_of(half, checks, reason), half.store_host)
        self._tables.sources.put(offset, ("broker", f"({reason})"))

    def discard_lost(self, offset: int, host: bytes, reason: str) -> None:
        """Give up a pending half message whose record can no longer be read."""
        log.error("half message lost", half_offset=offset, reason=reason)
        self._decide(offset, Event.DISCARD, None, host)
        self._tables.sources.put(offset, ("broker", f"({reason})"))

    def record(self, settled: Iterable[tuple[int, State]], host: bytes) -> None:
        """Write the op records that a start found missing, for half messages that are known to be settled."""
        for offset, state in settled:
            self._unrecorded += 1
            self._gather(Decision(offset, Event.STORED, state, None, host))

    def _live_offset(self, half: StoredMessage) -> int:
        """Return the half offset of a half message, or of the later copy that stands for it."""
        offset = half.queue_offset
        if self._tables.outcomes.state(offset) in _STOOD_FOR:
            return self._tables.copies.get(half.unique_key or "", offset)
        return offset

    def _unplaced(self, message: OutgoingMessage | None, half_offset: int, source: Source) -> Reply | None:
        """Return why a half message cannot be committed, if it has no topic to go to; otherwise None.

        :raises RequestRefused: the topic cannot be made again.
        """
        if message is None:
            return Reply(ResponseCode.SYSTEM_ERROR, "the half message does not name its real topic")
        if not self._is_placed(message):
            return self._refused_nowhere(half_offset, message.topic, source)
        return None

    def _read_whole(self, decision: Decision, source: Source, reason: str) -> None:
        """Read the half message of a decision that needs the body, and go on now or later."""
        try:
            place = self._tables.pending.place(decision.offset)
            find_whole(self._store, self._read, place, source, partial(self._go_on, decision, reason))
        except RequestRefused as refused:
            self._give_back(decision, Reply(refused.code, refused.remark))

    def _go_on(self, decision: Decision, reason: str, found: Found) -> None:
        """Go on with an outcome after its half message was read whole, or could not be read."""
        offset = decision.offset
        if isinstance(found, StoredMessage):
            if decision.event is _DISCARD:
                decision.message = discarded_of(found, self._tables.pending.checks(offset), reason)
            else:
                decision.message = final_of(found)
        if decision.message is None:
            error = str(found.error if isinstance(found, Failed) else found)
            text = f"Find prepared transaction message failed: half message {offset} cannot be read ({error})"
            log.error("outcome not stored", half_offset=offset, outcome=decision.event.value, error=error)
            self._give_back(decision, Reply(ResponseCode.SYSTEM_ERROR, text))
        else:
            self._gather(decision)

    def _give_back(self, decision: Decision, reply: Reply) -> None:
        """Make a half message pending again whose outcome is not written to the log, and notify the followers."""
        self._reopen(decision, reply)
        self._rest()

    def _is_placed(self, message: OutgoingMessage) -> bool:
        """Return whether the topic of a final message exists, and move the message to a queue that can be read.

        A missing topic counts as existing if it can be made.

        :raises RequestRefused: the topic cannot be made again.
        """
        config = self._topics.get(message.topic)
        if config is None:
            # A half message that was written again may be as old as the log.
            place = 0 if is_rewritten(message.property_map) else message.prepared_transaction_offset
            return self._has_topic is None or self._has_topic(message.topic, message.queue_id, place)
        if message.queue_id >= config.read_queue_nums:
            message.queue_id = readable_queue(config, message.queue_id)
        return True

    def _refused_nowhere(self, offset: int, topic: str, source: Source) -> Reply:
        """Log and return the refusal of a commit whose topic does not exist and cannot be made.

        No consumer would see the message, so the half message stays pending.
        """
        left_out = self._refusals.due(topic)
        if left_out is not None:
            log.warning(
                "commit refused: its topic does not exist",
                half_offset=offset,
                topic=topic,
                refused_by=source_text(source),
                left_out=left_out,
            )
        remark = f"topic[{topic}] does not exist: half message {offset} stays pending; create it, and commit again"
        return Reply(ResponseCode.TOPIC_NOT_EXIST, remark)

    def _decide(self, offset: int, event: Event, message: OutgoingMessage | None, host: bytes) -> None:
        decision = self._decision(offset, event, host)
        decision.message = message
        self._gather(decision)

    def _decision(self, offset: int, event: Event, host: bytes) -> Decision:
        """Make an outcome the first one of its half message. The caller still has to gather the decision."""
        state = _DECIDED[event]
        self._tables.outcomes.put(offset, state)
        decision = self._deciding[offset] = Decision(offset, event, state, None, host)
        return decision

    def _repeated(
        self,
        half: StoredMessage,
        offset: int,
        event: Event,
        state: State,
        source: Source,
        answer: Answer | None,
    ) -> None:
        """Answer a second outcome: an equal outcome gets the first one's result, a contradicting outcome is refused."""
        if state in (State.NONE, State.SETTLED):
            compare = partial(self._compared_with_evidence, offset, event, source, answer)
            self._read(partial(self._final_messages.outcome, half), compare, source)
        else:
            self._compared(offset, event, state, source, answer)

    def _compared_with_evidence(
        self, offset: int, event: Event, source: Source, answer: Answer | None, found: State | Failed
    ) -> None:
        if isinstance(found, Failed):
            tell(answer, Reply(ResponseCode.SYSTEM_ERROR, f"reading the store failed: {found.error}"))
        else:
            self._compared(offset, event, found, source, answer)

    def _compared(self, offset: int, event: Event, state: State, source: Source, answer: Answer | None) -> None:
        after = next_state(state, event)
        if after is None:
            self._refuse(offset, event, state, source, answer)
            return
        self._tables.counts.repeats.value += 1
        if after in OPEN_STATES:
            if answer is not None:
                self._deciding[offset].answers.append(answer)
        else:
            tell(answer, self._reply_again(offset))

    def _reply_again(self, offset: int) -> Reply:
        """Return the reply for an outcome that is stored already."""
        known = self._without_copy.get(offset)
        if known is None:
            return SUCCESS
        end, reply = known
        if self._store.stored_end < end:
            return reply
        del self._without_copy[offset]
        return SUCCESS

    def _refuse(self, offset: int, event: Event, state: State, source: Source, answer: Answer | None) -> None:
        self._tables.counts.conflicts.value += 1
        self._tables.conflicts.put(offset, (self._tables.conflicts.get(offset) or 0) + 1)
        first_by = source_text(self._tables.sources.get(offset) or FORGOTTEN)
        log.warning(
            "contradicting outcome refused",
            half_offset=offset,
            first=state.name,
            first_by=first_by,
            refused=event.value,
            refused_by=source_text(source),
        )
        remark = f"half message {offset} is {state.name}, by {first_by}; {event.value} is refused"
        tell(answer, Reply(ResponseCode.ILLEGAL_OPERATION, remark))

    # -- storing --------------------------------------------------------------------------------------------

    def _gather(self, decision: Decision) -> None:
        message = decision.message
        if message is not None:
            size = len(message.body)
            self._gathered_bytes += size
            if self._gathered_bytes > self._tables.limits.settle_batch_bytes and self._gathered:
                self._flush()  # the log counts the bytes that wait for a slow disk
                self._gathered_bytes = size
        self._gathered.append(decision)
        if len(self._gathered) == 1:
            self._soon(self._flush)

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._gathered_bytes = 0
        placed: list[Decision] = []
        for decision in gathered:
            refusal = self._refusal(decision) if decision.event is _COMMIT else None
            if refusal is None:
                placed.append(decision)
            else:
                self._reopen(decision, refusal)
        for batch in _batches(placed, self._tables):
            self._append(batch)
        if len(placed) < len(gathered):
            self._rest()

    def _refusal(self, decision: Decision) -> Reply | None:
        """Return why a commit cannot be written now: its topic may have been deleted since the request.

        None if the commit can be written.
        """
        message = decision.message
        if message is None:
            return None
        try:
            if self._is_placed(message):
                return None
        except RequestRefused as refused:
            return Reply(refused.code, refused.remark)
        source = self._tables.sources.get(decision.offset) or FORGOTTEN
        return self._refused_nowhere(decision.offset, message.topic, source)

    def _append(self, batch: list[Decision]) -> None:
        messages = [decision.message for decision in batch if decision.message is not None]
        settled = [(decision.offset, _terminal(decision.state)) for decision in batch]
        host, now_ms = batch[0].host, self._clock_ms()
        if self._log_evidence is None:
            messages.append(build_op(settled, host=host, now_ms=now_ms, checks=self._checks_of(batch)))
        else:
            messages += self._log_evidence.records(settled, host=host, now_ms=now_ms)
        self._store.append_all(messages, partial(self._appended, batch))

    def _checks_of(self, batch: list[Decision]) -> list[int]:
        """Return how often each half message was checked; 0 for one that was settled before the start."""
        pending = self._tables.pending
        return [0 if decision.event is _STORED else pending.checks(decision.offset) for decision in batch]

    def _appended(self, batch: list[Decision], results: list[PutResult]) -> None:
        op = results[-1]
        if op.status.is_stored:
            if self._log_evidence is None:
                self._tables.ops.note_all([decision.offset for decision in batch], op.queue_offset)
            else:
                settled = [(decision.offset, _terminal(decision.state)) for decision in batch]
                self._log_evidence.stored(settled, results)
            self._settled(batch, self._reply(batch, op))
            unstored, self._unstored = self._unstored, []
            for decision in unstored:
                self._gather(decision)
        elif op.status.is_of_message and len(batch) > 1:
            # One message cannot be stored. Each decision is appended alone, so that the others are stored.
            for decision in batch:
                self._append([decision])
            return
        else:
            for decision in batch:
                self._failed(decision, op.status)
        self._rest()

    def _rest(self) -> None:
        """Notify those who follow outcomes; if nothing is on its way, also call those who wait for that."""
        for told in self.moved:
            told()
        if self.is_idle:
            idle, self._idle = self._idle, []
            for callback in idle:
                callback()

    def _reply(self, batch: list[Decision], op: PutResult) -> Reply:
        """Return the reply for stored outcomes; remember those that too few slaves have."""
        reply = stored_reply(op.status)
        if reply is not SUCCESS:
            known = op.commit_log_offset + op.size, reply
            self._without_copy.update((decision.offset, known) for decision in batch)
            while len(self._without_copy) > MAX_WITHOUT_COPY:
                del self._without_copy[next(iter(self._without_copy))]
        return reply

    def _settled(self, batch: list[Decision], reply: Reply) -> None:
        """Note that the outcomes of a batch are durable, and answer those who asked."""
        tables = self._tables
        outcomes, pending, turns, recent = tables.outcomes, tables.pending, tables.turns, tables.recent
        now_ms = self._clock_ms()
        committed: dict[int, list[int]] = {}  # ages in milliseconds by topic, counted at once
        for decision in batch:
            offset = decision.offset
            if decision.event is _STORED:
                self._unrecorded -= 1
                continue
            state = _TERMINAL[decision.state]
            del self._deciding[offset]
            outcomes.put(offset, state)
            recent.forget(offset)
            stored_at_ms, group, topic = pending.remove(offset)
            if state is _COMMITTED:
                committed.setdefault(topic, []).append(now_ms - stored_at_ms)
            else:
                self._count(state, topic)
            turns.leave(group, offset)
            for answer in decision.answers:
                answer(reply)
        for topic, ages_ms in committed.items():
            self._count_commits(topic, ages_ms)
        self._tables.counts.half_messages.value = pending.count

    def _count_commits(self, topic: int, ages_ms: list[int]) -> None:
        numbers, count = self._tables.counts.by_topic[topic], len(ages_ms)
        self._tables.counts.commits.value += count
        numbers.half_messages.value -= count
        numbers.commits.value += count
        observe = numbers.latency_s.observe
        for age_ms in ages_ms:
            observe(max(age_ms, 0) / 1_000)

    def _count(self, state: State, topic: int) -> None:
        counts = self._tables.counts
        numbers = counts.by_topic[topic]
        numbers.half_messages.value -= 1
        if state is State.ROLLED_BACK:
            counts.rollbacks.value += 1
            numbers.rollbacks.value += 1
        elif state is State.DISCARDED:
            counts.discards.value += 1

    def _failed(self, decision: Decision, status: PutStatus) -> None:
        offset = decision.offset
        if decision.event is Event.STORED:
            # The half message stays settled; its op record is written with the next append that succeeds.
            log.error("op record not stored", half_offset=offset, status=status.name)
            self._unstored.append(decision)
            return
        log.error("outcome not stored", half_offset=offset, outcome=decision.event.value, status=status.name)
        reply = Reply(
            REPLY_OF.get(status, ResponseCode.SYSTEM_ERROR),
            f"the outcome could not be stored: {status.name}; the half message is pending again",
        )
        self._reopen(decision, reply)

    def _reopen(self, decision: Decision, reply: Reply) -> None:
        """Make a half message pending again after its outcome could not be stored, and answer those who asked."""
        offset = decision.offset
        del self._deciding[offset]
        self._tables.sources.forget(offset)
        self._tables.outcomes.put(offset, TRANSITIONS[decision.state][Event.FAILED])
        for told in self.reopened:
            told(offset)
        for answer in decision.answers:
            answer(reply)

    # -- resting --------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True if no outcome is on its way to the log."""
        return not self._deciding and not self._gathered

    @property
    def has_unrecorded(self) -> bool:
        """True while op records that the start found missing are not stored."""
        return self._unrecorded > 0

    @property
    def all_recorded(self) -> bool:
        """True if no outcome is on its way to the log and no op record is missing."""
        return self.is_idle and not self.has_unrecorded

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when no outcome is on its way; at once if none is on its way now."""
        if self.is_idle:
            callback()
        else:
            self._idle.append(callback)


def _terminal(state: State) -> State:
    """Return the state that the op record gives a decision: the state after the outcome is stored."""
    return _TERMINAL.get(state, state)


def _batches(decisions: list[Decision], tables: TransactionTables) -> list[list[Decision]]:
    """Cut the gathered decisions into appends within the limits, each with at least one decision."""
    batches: list[list[Decision]] = []
    batch: list[Decision] = []
    body_bytes = op_bytes = 0
    max_body_bytes, max_entries = tables.limits.settle_batch_bytes, tables.limits.op_entries
    max_op_bytes = tables.settings.transaction_op_msg_max_size
    for decision in decisions:
        message_bytes = len(decision.message.body) if decision.message is not None else 0
        entry = entry_bytes(decision.offset)
        body_bytes += message_bytes
        op_bytes += entry
        if not batch or body_bytes > max_body_bytes or op_bytes > max_op_bytes or len(batch) == max_entries:
            batch = []
            batches.append(batch)
            body_bytes, op_bytes = message_bytes, entry
        batch.append(decision)
    return batches
