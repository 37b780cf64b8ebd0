"""Transactions as the broker sees them: one object that is told of half messages and asked for outcomes.

Order of life: ``rebuild`` once the store is open and before anything is served, ``start`` when the reactor
runs, ``stop`` before the store closes and before the consumer offsets are written for the last time.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred

from gateway.clock import END_OF_TIME_MS
from gateway.errors import RequestRefused
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.settings.transaction import TransactionStateStore
from gateway.store.put_result import PutOutcome, PutResult, each_result
from gateway.telemetry.logs import EventLog
from gateway.transaction.checks.check_journal import Check, CheckJournal
from gateway.transaction.checks.check_service import CheckService
from gateway.transaction.checks.verdict import immunity_ms
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.log_access import LogAccess
from gateway.transaction.needs import TransactionNeeds
from gateway.transaction.operators.overview import Overview
from gateway.transaction.records.final_messages import FinalMessages
from gateway.transaction.records.half_messages import half_of, real_place, refuse_reason, resumed_of
from gateway.transaction.replies import REPLY_OF, SUCCESS, Answer, Reply, Source
from gateway.transaction.restart.progress import Progress
from gateway.transaction.restart.rebuild import MAX_COPIES, Findings, OpenHalf, Rebuild, journal_check
from gateway.transaction.settling import Settling
from gateway.transaction.state_stores.changes import Prepared
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.state_stores.follower import StateFollower
from gateway.transaction.state_stores.outcome_records import Evidence
from gateway.transaction.state_stores.remembered import Remembered
from gateway.transaction.states import OPEN_STATES, Event, State
from gateway.transaction.tables.transaction_tables import TransactionTables
from wire.codes import ResponseCode
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage, StoredMessage

log = EventLog("transaction")

OPENED_TOGETHER = 4_096
MAX_RESUMED = 10_000
"""Half messages resumed lately of which the place is remembered."""

IS_CHECKED: Final = "the half message is being checked already"

# Looked up for every transaction, which for an attribute of an enumeration takes as long as a call.
_PENDING: Final = State.PENDING
_COMMIT: Final = Event.COMMIT
_ROLLBACK: Final = Event.ROLLBACK


class Transactions:
    """All transactions of one broker.

    :param choice: where pending half messages are kept; None: in op records, whatever the directory says.
    """

    def __init__(
        self,
        tables: TransactionTables,
        store: LogAccess,
        needs: TransactionNeeds,
        journal: CheckJournal,
        choice: StateChoice | None = None,
    ) -> None:
        self.tables = tables
        self.limits = tables.limits
        self.counts = tables.counts
        self.pending = tables.pending
        self._store = store
        self._surroundings = needs
        self._clock_ms = needs.clock_ms
        self._journal = journal
        self._unrecorded: list[tuple[int, State]] = []
        self._journal_checks: Mapping[int, Check] = {}
        self._found_at_ms = 0
        self._opening: list[OpenHalf] = []
        self._resuming: set[str] = set()
        self._resumed: dict[str, int] = {}
        self._choice = choice
        self._follower: StateFollower | None = None
        if choice is not None and choice.wanted is not TransactionStateStore.QUEUE:
            self._follower = StateFollower(
                store=store,
                reactor=needs.reactor,
                clock_ms=needs.clock_ms,
                in_thread=needs.in_thread,
                pending=self._all_pending,
                range_of=lambda: (self.pending.base, self.pending.end),
                limit=choice.limit,
            )
        evidence = None if self._follower is None else Evidence(self._follower, tables.pending.place)
        self._settling = Settling(tables, store, needs, evidence)
        self._checks = CheckService(tables, store, self._settling, journal, needs)
        self._final_messages = FinalMessages(store)
        self.overview = Overview(tables, store, needs, self._newest_state)
        self._progress = Progress(tables, store, self._settling, journal, needs)
        self.counts.watch(
            lambda: tables.oldest_age_ms(self._clock_ms()) / 1_000,
            lambda: tables.turns.in_flight,
            lambda: 0 if self._follower is None else self._follower.waiting,
        )

    # -- life -----------------------------------------------------------------------------------------------

    def rebuild(self) -> Findings:
        """Find what is pending and what was decided; blocks.

        :raises OSError: the check journal, or a state table, cannot be used.
        :raises GatewayError: the directory's pending transactions are in another state store than is asked for.
        """
        started_ms = self._found_at_ms = self._clock_ms()
        self._journal_checks = self._journal.load()
        found = self._find()
        self._journal_checks = {}
        self.tables.ops.end = max(self.tables.ops.end, found.op_end)
        self._unrecorded = found.unrecorded
        self.tables.copies.update(found.copies)
        self.tables.outcomes.seal()
        self.counts.half_messages.value = self.pending.count
        log.info(
            "transactions found",
            pending=self.pending.count,
            groups=self.tables.turns.group_count,
            half_messages_read=found.half_count,
            op_records_added=len(found.unrecorded),
            took_ms=self._clock_ms() - started_ms,
        )
        return found

    def _find(self) -> Findings:
        """Ask the state store the directory has, and go on with the one that is wanted."""
        choice = self._choice
        remembered = Remembered() if choice is None else choice.remembered.load()
        states = None if choice is None else choice.make(remembered.store, remembered)
        try:
            found = Rebuild(
                store=self._store,
                offsets=self._surroundings.offsets,
                mark=self._journal.mark,
                outcomes=self.tables.outcomes,
                ops=self.tables.ops,
                opened=self._found_open,
                closed=self._found_closed,
                first=remembered.first,
                states=states,
                topics=self._surroundings.topics,
            ).run()
            self._open_found()
            self.pending.reach(found.half_end)
            if choice is not None and choice.wanted is not remembered.store:
                states = choice.switch(remembered, states, self._store, self.pending)
                found.unrecorded, found.prepared, found.settled = [], [], []
            elif choice is not None:
                choice.claim(remembered, states)
        except BaseException:
            if states is not None:
                states.close()
            raise
        if self._follower is not None and states is not None:
            self._follower.begin(states, found.prepared, found.settled)
        return found

    def start(self) -> None:
        """Write the op records that a crash left out, and begin to check."""
        self._settling.record(self._unrecorded, self._surroundings.host)
        self._unrecorded = []
        if self._follower is not None:
            self._follower.start()
        self._progress.start()
        self._checks.start()

    def stop(self) -> Deferred[None]:
        """Check nothing more; done when no outcome is on its way to the log and the progress is written."""
        self._checks.stop()
        stopped: Deferred[None] = Deferred()
        self._settling.when_idle(partial(self._finish, stopped))
        return stopped

    def _finish(self, stopped: Deferred[None]) -> None:
        self._progress.stop()
        self._journal.close()
        if self._follower is None:
            stopped.callback(None)
        else:
            self._follower.stop(lambda: stopped.callback(None))

    # -- half messages --------------------------------------------------------------------------------------

    def refuse_reason(self, properties: Mapping[str, str]) -> str | None:
        """Why a half message with these properties cannot be taken, as a sentence, or None when it can."""
        return refuse_reason(properties)

    def half_of(self, message: OutgoingMessage) -> OutgoingMessage:
        """The half message that is stored instead of a transactional message.

        :raises RequestRefused: SERVICE_NOT_AVAILABLE, the state store has failed for too many half messages.
        """
        if self._follower is not None and (reason := self._follower.refusal) is not None:
            raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, reason)
        return half_of(message)

    @property
    def follows_all(self) -> bool:
        """Whether ``half_stored`` has to hear of every batch, also of one without half messages."""
        return self._follower is not None

    def half_stored(self, outcomes: Sequence[PutOutcome]) -> None:
        """Messages became visible; those of the half topic are pending from now on."""
        tables = self.tables
        pending, turns = tables.pending, tables.turns
        now_ms, timeout_ms = self._clock_ms(), self.limits.timeout_ms
        first_due_ms = END_OF_TIME_MS
        for outcome in outcomes:
            if outcome.topic != HALF_TOPIC:
                continue
            for stored in outcome.each():
                offset = stored.queue_offset
                properties = stored.message.property_map
                immunity = properties.get(PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS)
                due_at_ms = now_ms + (timeout_ms if immunity is None else immunity_ms(immunity, self.limits))
                group = turns.join(properties.get(PropertyName.PGROUP, ""))
                topic = tables.joined_topic(properties.get(PropertyName.REAL_TOPIC, ""))
                pending.add(offset, stored.commit_log_offset, stored.size, now_ms, due_at_ms, group, topic)
                tables.outcomes.put(offset, _PENDING)
                tables.recent.keep(stored)
                tables.due_times.add(offset, due_at_ms)
                if due_at_ms < first_due_ms:
                    first_due_ms = due_at_ms
        if first_due_ms < END_OF_TIME_MS:
            self._checks.due(first_due_ms)
            self.counts.half_messages.value = pending.count
        if self._follower is not None:
            self._follow(self._follower, outcomes)

    def _follow(self, follower: StateFollower, outcomes: Sequence[PutOutcome]) -> None:
        """Tell the state store of the half messages among those that became visible."""
        now_ms = self._clock_ms()
        for stored in each_result(outcomes):
            if stored.topic == HALF_TOPIC:
                group = stored.message.property_map.get(PropertyName.PGROUP, "")
                place = stored.commit_log_offset
                follower.prepared(Prepared(stored.queue_offset, place, stored.size, now_ms, group))
        if outcomes:
            follower.visible(outcomes[-1].commit_log_offset + outcomes[-1].size)

    def _all_pending(self) -> Iterator[Prepared]:
        pending = self.pending
        for offset in pending:
            group = self.tables.turns.name(pending.group(offset))
            yield Prepared(offset, *pending.place(offset), pending.stored_at_ms(offset), group)

    # -- outcomes -------------------------------------------------------------------------------------------

    def commit(self, half: StoredMessage, source: Source, answer: Answer | None = None) -> None:
        """Deliver a half message, unless it has an outcome already."""
        self._settling.ask(half, _COMMIT, source, answer)

    def roll_back(self, half: StoredMessage, source: Source, answer: Answer | None = None) -> None:
        """Never deliver a half message, unless it has an outcome already."""
        self._settling.ask(half, _ROLLBACK, source, answer)

    def settle(self, half: StoredMessage, event: Event, source: Source, answer: Answer, reason: str = "") -> None:
        """An operator's outcome: it takes the same way as a producer's, and is refused for the same reasons.

        :param event: COMMIT, ROLLBACK or DISCARD, the last with a reason.
        """
        told = _OperatorsAnswer(self.counts, answer)
        told.is_first = self._settling.ask(half, event, source, told.tell, reason)

    def ask_now(self, half_offset: int) -> bool:
        """Let a pending half message be checked at once; False when it is not pending."""
        if not self.tables.is_undecided(half_offset):
            return False
        self._checks.ask_now(half_offset)
        return True

    def is_pending(self, half_offset: int) -> bool:
        """Whether a half message waits for its outcome, or for the outcome it has to be stored."""
        return half_offset in self.pending

    def is_pending_of(self, half_offset: int, commit_log_offset: int, group: str) -> bool:
        """Whether a pending half message lies there and is this producer group's."""
        pending, turns = self.pending, self.tables.turns
        return pending.place(half_offset)[0] == commit_log_offset and turns.name(pending.group(half_offset)) == group

    def checked(self, half_offset: int, *, knows: bool) -> None:
        """A producer answered a check of the half message at this offset of the half queue."""
        if not knows:
            self.counts.checks_unknown.value += 1
        self._checks.answered(half_offset, knows=knows)

    def recent(self, half_offset: int, commit_log_offset: int) -> StoredMessage | None:
        """The half message at these two offsets if it was stored a moment ago and is pending; None otherwise."""
        return self.tables.recent.find(half_offset, commit_log_offset)

    def stored_at_ms(self, half: StoredMessage) -> int:
        """When a half message was stored, by the clock of this object as long as it is pending."""
        offset = half.queue_offset
        return self.pending.stored_at_ms(offset) if offset in self.pending else half.stored_at_ms

    def state(self, half_offset: int) -> State:
        """What became of a half message; NONE when it was never seen or is forgotten."""
        return self.tables.outcomes.state(half_offset)

    # -- resuming -------------------------------------------------------------------------------------------

    def resume(self, message: StoredMessage, answer: Answer, asker: Hashable = None) -> None:
        """Begin the checks of a given-up half message anew, or of a pending one at once.

        :param message: a message of TRANS_CHECK_MAX_TIME_TOPIC, or a pending half message; with or without its body.
        :param asker: who takes turns with others in reading the disk.
        :raises RequestRefused: too many reads of the disk wait.
        """
        offset = message.queue_offset
        if message.topic == HALF_TOPIC:
            if self.tables.is_undecided(offset):
                self._checks.check_now(offset)
                answer(SUCCESS)
            else:
                answer(Reply(ResponseCode.SYSTEM_ERROR, f"half message {offset} is settled"))
            return
        key = message.unique_key or ""
        refusal = self._hasty_refusal(message, key)
        if refusal is not None:
            answer(Reply(ResponseCode.SYSTEM_ERROR, refusal))
            return
        self._resuming.add(key)
        try:
            looked = partial(self._looked, key, answer)
            self._surroundings.read(partial(self._what_became_of, message, key), looked, asker)
        except RequestRefused:
            self._resuming.discard(key)
            raise

    def _looked(self, key: str, answer: Answer, found: StoredMessage | str | BaseException) -> None:
        """It is known what became of a given-up half message: store it anew, or say why not."""
        if isinstance(found, StoredMessage):
            self._store.append(resumed_of(found), partial(self._stored_anew, key, answer))
            return
        self._resuming.discard(key)
        remark = f"reading the store failed: {found}" if isinstance(found, BaseException) else found
        answer(Reply(ResponseCode.SYSTEM_ERROR, remark))

    def _stored_anew(self, key: str, answer: Answer, result: PutResult) -> None:
        self._resuming.discard(key)
        if not result.status.is_stored:
            code = REPLY_OF.get(result.status, ResponseCode.SYSTEM_ERROR)
            answer(Reply(code, f"the half message could not be stored: {result.status.name}"))
            return
        if len(self._resumed) >= MAX_RESUMED:
            del self._resumed[next(iter(self._resumed))]
        self._resumed[key] = result.queue_offset
        log.info("half message resumed", half_offset=result.queue_offset, message_id=key)
        answer(SUCCESS)

    def resumed_offset(self, message: StoredMessage) -> int | None:
        """Where the half message lies that was made of a given-up one lately; None when that is not known."""
        return message.queue_offset if message.topic == HALF_TOPIC else self._resumed.get(message.unique_key or "")

    def _hasty_refusal(self, message: StoredMessage, key: str) -> str | None:
        """Why a message cannot be resumed, as far as the message itself says."""
        if message.topic != CHECK_MAX_TOPIC:
            return f"a message of topic {message.topic} is not a half message that was given up"
        if real_place(message.property_map) is None or not key:
            return "the message does not say where it belongs or has no unique key"
        if key in self._resuming:
            return IS_CHECKED
        return None

    def _what_became_of(self, message: StoredMessage, key: str) -> StoredMessage | str:
        """Return the whole message, or why it cannot be resumed: it would be delivered twice; blocks."""
        place = real_place(message.property_map)
        state = self._newest_state(key)
        if state in OPEN_STATES:
            return IS_CHECKED
        if state is State.ROLLED_BACK:
            return "the half message was rolled back already"
        if state is State.COMMITTED or (place is not None and self._final_messages.exists(place[0], key)):
            return "the half message was committed already"
        whole = message if message.has_body else self._store.message_at(message.commit_log_offset, message.total_size)
        return "the message is damaged" if whole is None else whole

    def _newest_state(self, key: str) -> State:
        """The state of the newest half message with this unique key; blocks, for any thread."""
        offsets = [
            half.queue_offset
            for half in self._store.query_by_key(HALF_TOPIC, key, MAX_COPIES, 0, END_OF_TIME_MS)
            if half.unique_key == key
        ]
        # The key index may be a moment behind what was resumed just now.
        return self.tables.outcomes.state(max([*offsets, self._resumed.get(key, -1)]))

    # -- inside ---------------------------------------------------------------------------------------------

    def _found_open(self, half: OpenHalf) -> None:
        self._opening.append(half)
        if len(self._opening) >= OPENED_TOGETHER:
            self._open_found()

    def _open_found(self) -> None:
        """Take in the open half messages that were found; many at a time, since a start may find a million."""
        found, self._opening = self._opening, []
        journal, timeout_ms, now_ms = self._journal_checks, self.limits.timeout_ms, self._found_at_ms
        add_due = self.tables.due_times.add
        counts = Counter([half.group for half in found])
        groups = {name: self.tables.turns.join_many(name, count) for name, count in counts.items()}
        counts = Counter([half.topic for half in found])
        topics = {name: self.tables.joined_topic(name, count) for name, count in counts.items()}
        for half in found:
            offset, stored_at_ms, checks = half.offset, half.stored_at_ms, half.checks
            if stored_at_ms > now_ms:
                stored_at_ms = now_ms
            due_at_ms = stored_at_ms + timeout_ms
            if half.immunity is not None:
                due_at_ms = stored_at_ms + immunity_ms(half.immunity, self.limits)
            known = journal_check(journal.get(offset), half) if journal else None
            if known is not None:
                due_at_ms, checks = min(known[0], now_ms + self.limits.check_interval_ms), known[1]
            group, topic = groups[half.group], topics[half.topic]
            self.pending.add(offset, half.log_offset, half.size, stored_at_ms, due_at_ms, group, topic)
            if checks:
                self.pending.schedule(offset, due_at_ms, checks)
            add_due(offset, due_at_ms)
        self.tables.outcomes.put_pending([half.offset for half in found])

    def _found_closed(self, offset: int, state: State) -> None:
        self._open_found()
        group = self.pending.group(offset)
        self.counts.by_topic[self.pending.topic(offset)].half_messages.value -= 1
        self.pending.remove(offset)
        self.tables.turns.leave(group, offset)
        self.tables.outcomes.put(offset, state)


class _OperatorsAnswer:
    """The answer to an operator who gives an outcome; counts it if it was the first and is stored."""

    __slots__ = ("_answer", "_counts", "is_first")

    def __init__(self, counts: TransactionCounts, answer: Answer) -> None:
        self._counts = counts
        self._answer = answer
        self.is_first = False

    def tell(self, reply: Reply) -> None:
        if self.is_first and reply.code == ResponseCode.SUCCESS:
            self._counts.manual.value += 1
        self._answer(reply)
