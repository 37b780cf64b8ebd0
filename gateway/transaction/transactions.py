"""Transactions as the broker sees them: one object that is told of half messages and asked for outcomes.

Order of life: ``rebuild`` once the store is open and before anything is served, ``start`` when the reactor
runs, ``stop`` before the store closes and before the consumer offsets are written for the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from gateway.clock import Milliseconds
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.store.files import FileLayer
from gateway.store.put_result import Dispatched, PutResult
from gateway.telemetry.logs import EventLog
from gateway.telemetry.metrics import Registry
from gateway.transaction.check_journal import Check, CheckJournal, InThread
from gateway.transaction.check_service import CheckService
from gateway.transaction.check_turns import CheckTurns
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.due_times import DueTimes
from gateway.transaction.half_messages import half_of, real_place, refuse_reason, resumed_of
from gateway.transaction.limits import TransactionLimits
from gateway.transaction.log_access import LogAccess, OffsetTable, ProducerChoice
from gateway.transaction.op_positions import OpPositions
from gateway.transaction.outcomes import Outcomes
from gateway.transaction.pending import Pending
from gateway.transaction.progress import Progress
from gateway.transaction.rebuild import END_OF_TIME_MS, MAX_COPIES, Findings, OpenHalf, Rebuild, journal_check
from gateway.transaction.settling import REPLY_OF, SUCCESS, Answer, Reply, Settling, Source
from gateway.transaction.states import OPEN_STATES, Event, State
from gateway.transaction.verdict import immunity_ms
from wire.codes import ResponseCode
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage, StoredMessage

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

log = EventLog("transaction")

MAX_RESUMED = 10_000
"""Half messages resumed lately of which the place is remembered."""


class Transactions:
    """All transactions of one broker.

    :param clock_ms: a steady clock (``steady_clock``).
    :param journal_path: file of the check counts, in the store's directory.
    :param host: the broker's packed address, 8 or 20 bytes.
    :param soon: runs a function at the end of the reactor turn; the store's.
    :param in_thread: runs a blocking function in a thread.
    """

    def __init__(
        self,
        *,
        store: LogAccess,
        consumer_offsets: OffsetTable,
        producers: ProducerChoice,
        reactor: IReactorTime,
        clock_ms: Milliseconds,
        limits: TransactionLimits,
        journal_path: Path,
        host: bytes,
        soon: Callable[[Callable[[], None]], None],
        in_thread: InThread,
        metrics: Registry | None = None,
        files: FileLayer | None = None,
    ) -> None:
        self.limits = limits
        self.counts = TransactionCounts(Registry() if metrics is None else metrics)
        self.outcomes = Outcomes(limits.remembered_outcomes)
        self.pending = Pending()
        self._store = store
        self._consumer_offsets = consumer_offsets
        self._clock_ms = clock_ms
        self._host = host
        self._ops = OpPositions()
        self._turns = CheckTurns(
            max_in_flight=limits.checks_in_flight, answer_timeout_ms=limits.check_answer_timeout_ms
        )
        self._journal = CheckJournal(journal_path, in_thread=in_thread, files=files)
        self._unrecorded: list[tuple[int, State]] = []
        self._journal_checks: dict[int, Check] = {}
        self._resuming: set[str] = set()
        self._resumed: dict[str, int] = {}
        self._due_times = DueTimes()
        self._settling = Settling(
            store=store,
            outcomes=self.outcomes,
            pending=self.pending,
            turns=self._turns,
            ops=self._ops,
            counts=self.counts,
            limits=limits,
            clock_ms=clock_ms,
            soon=soon,
            reopened=self._reopened,
            moved=self._moved,
        )
        self._checks = CheckService(
            store=store,
            producers=producers,
            reactor=reactor,
            clock_ms=clock_ms,
            limits=limits,
            outcomes=self.outcomes,
            pending=self.pending,
            due_times=self._due_times,
            turns=self._turns,
            settling=self._settling,
            journal=self._journal,
            counts=self.counts,
            host=host,
        )
        self._progress = Progress(
            store=store,
            offsets=consumer_offsets,
            pending=self.pending,
            ops=self._ops,
            settling=self._settling,
            journal=self._journal,
            reactor=reactor,
        )

    # -- life -----------------------------------------------------------------------------------------------

    def rebuild(self) -> Findings:
        """Find what is pending and what was decided; blocks.

        :raises OSError: the check journal cannot be opened.
        """
        started_ms = self._clock_ms()
        self._journal_checks = self._journal.load()
        found = Rebuild(
            store=self._store,
            offsets=self._consumer_offsets,
            mark=self._journal.mark,
            outcomes=self.outcomes,
            ops=self._ops,
            opened=self._found_open,
            closed=self._found_closed,
        ).run()
        self._journal_checks = {}
        self.pending.reach(found.half_end)
        self._ops.end = max(self._ops.end, found.op_end)
        self._unrecorded = found.unrecorded
        self._settling.copies.update(found.copies)
        self.outcomes.seal()
        self.counts.half_messages.value = self.pending.count
        log.info(
            "transactions found",
            pending=self.pending.count,
            groups=self._turns.group_count,
            half_messages_read=found.half_count,
            op_records_added=len(found.unrecorded),
            took_ms=self._clock_ms() - started_ms,
        )
        return found

    def start(self) -> None:
        """Write the op records that a crash left out, and begin to check."""
        self._settling.record(self._unrecorded, self._host)
        self._unrecorded = []
        self._progress.start()
        self._checks.start()

    def stop(self) -> Deferred[None]:
        """Check nothing more; done when no outcome is on its way to the log and the progress is written."""
        self._checks.stop()
        stopped: Deferred[None] = Deferred()

        def finish() -> None:
            self._progress.stop()
            self._journal.close()
            stopped.callback(None)

        self._settling.when_idle(finish)
        return stopped

    # -- half messages --------------------------------------------------------------------------------------

    def refuse_reason(self, properties: Mapping[str, str]) -> str | None:
        """Why a half message with these properties cannot be taken, as a sentence, or None when it can."""
        return refuse_reason(properties)

    def half_of(self, message: OutgoingMessage) -> OutgoingMessage:
        """The half message that is stored instead of a transactional message."""
        return half_of(message)

    def half_stored(self, dispatched: Iterable[Dispatched]) -> None:
        """Messages became visible; those of the half topic are pending from now on."""
        now_ms = self._clock_ms()
        pending = self.pending
        count = pending.count
        for stored in dispatched:
            if stored.topic != HALF_TOPIC:
                continue
            offset = stored.queue_offset
            properties = stored.message.property_map
            immune_ms = immunity_ms(properties.get(PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS), self.limits)
            group = self._turns.join(properties.get(PropertyName.PGROUP, ""))
            due_at_ms = now_ms + immune_ms
            pending.add(offset, stored.commit_log_offset, stored.size, now_ms, due_at_ms, group)
            self.outcomes.put(offset, State.PENDING)
            self._checks.schedule(offset, due_at_ms)
        if pending.count != count:
            self.counts.half_messages.value = pending.count

    # -- outcomes -------------------------------------------------------------------------------------------

    def commit(self, half: StoredMessage, source: Source, answer: Answer | None = None) -> None:
        """Deliver a half message, unless it has an outcome already."""
        self._settling.ask(half, Event.COMMIT, source, answer)

    def roll_back(self, half: StoredMessage, source: Source, answer: Answer | None = None) -> None:
        """Never deliver a half message, unless it has an outcome already."""
        self._settling.ask(half, Event.ROLLBACK, source, answer)

    def checked(self, half_offset: int, *, knows: bool) -> None:
        """A producer answered a check of the half message at this offset of the half queue."""
        if not knows:
            self.counts.checks_unknown.value += 1
        self._checks.answered(half_offset)

    def stored_at_ms(self, half: StoredMessage) -> int:
        """When a half message was stored, by the clock of this object as long as it is pending."""
        offset = half.queue_offset
        return self.pending.stored_at_ms(offset) if offset in self.pending else half.stored_at_ms

    def state(self, half_offset: int) -> State:
        """What became of a half message; NONE when it was never seen or is forgotten."""
        return self.outcomes.state(half_offset)

    # -- resuming -------------------------------------------------------------------------------------------

    def resume(self, message: StoredMessage, answer: Answer) -> None:
        """Begin the checks of a given-up half message anew, or of a pending one at once.

        :param message: a message of TRANS_CHECK_MAX_TIME_TOPIC, or a pending half message.
        """
        offset = message.queue_offset
        if message.topic == HALF_TOPIC:
            if self.outcomes.state(offset) is State.PENDING and offset in self.pending:
                self._checks.check_now(offset)
                answer(SUCCESS)
            else:
                answer(Reply(ResponseCode.SYSTEM_ERROR, f"half message {offset} is settled"))
            return
        refusal = self._resume_refusal(message)
        if refusal is not None:
            answer(Reply(ResponseCode.SYSTEM_ERROR, refusal))
            return
        key = message.unique_key or ""
        self._resuming.add(key)

        def stored(result: PutResult) -> None:
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

        self._store.append(resumed_of(message), stored)

    def _resume_refusal(self, message: StoredMessage) -> str | None:
        """Why a message cannot be resumed: it would be delivered twice, or nobody could settle it."""
        if message.topic != CHECK_MAX_TOPIC:
            return f"a message of topic {message.topic} is not a half message that was given up"
        place, key = real_place(message.property_map), message.unique_key
        if place is None or key is None:
            return "the message does not say where it belongs or has no unique key"
        state = self._newest_state(key)
        if key in self._resuming or state in OPEN_STATES:
            return "the half message is being checked already"
        if state is State.ROLLED_BACK:
            return "the half message was rolled back already"
        if state is State.COMMITTED or self._settling.final_exists(place[0], key):
            return "the half message was committed already"
        return None

    def _newest_state(self, key: str) -> State:
        """The state of the newest half message with this unique key."""
        offsets = [
            half.queue_offset
            for half in self._store.query_by_key(HALF_TOPIC, key, MAX_COPIES, 0, END_OF_TIME_MS)
            if half.unique_key == key
        ]
        # The key index may be a moment behind what was resumed just now.
        return self.outcomes.state(max([*offsets, self._resumed.get(key, -1)]))

    # -- inside ---------------------------------------------------------------------------------------------

    def _found_open(self, half: OpenHalf) -> None:
        group = self._turns.join(half.group)
        known = journal_check(self._journal_checks.get(half.offset), half)
        now_ms = self._clock_ms()
        if known is None:
            due_at_ms = min(half.stored_at_ms, now_ms) + immunity_ms(half.immunity, self.limits)
            checks = half.checks
        else:
            due_at_ms = min(known[0], now_ms + self.limits.check_interval_ms)
            checks = known[1]
        stored_at_ms = min(half.stored_at_ms, now_ms)
        self.pending.add(half.offset, half.log_offset, half.size, stored_at_ms, due_at_ms, group)
        if checks:
            self.pending.schedule(half.offset, due_at_ms, checks)
        self.outcomes.put(half.offset, State.PENDING)
        self._due_times.add(half.offset, due_at_ms)

    def _found_closed(self, offset: int, state: State) -> None:
        group = self.pending.group(offset)
        self.pending.remove(offset)
        self._turns.leave(group, offset)
        self.outcomes.put(offset, state)

    def _reopened(self, offset: int) -> None:
        self._checks.reopened(offset)

    def _moved(self) -> None:
        self._progress.moved()
