"""Ask producers for the outcomes of half messages that they did not settle: the I/O around ``phases`` and ``verdict``.

The service wakes when the next half message is due, and once a second while an answer or a producer is awaited. No
sleep is longer than 60 s while anything is pending. While nothing is pending, the service does not wake at all.

A check is one one-way request over the connection of a live producer. If the connection cannot take the request, the
next connection of the group is tried. Nothing is written to the commit log. Upstream's
``TransactionalMessageServiceImpl.check`` reads the half queue in rounds and writes every checked message again.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from gateway.access.needs import topic_needs
from gateway.in_thread import Failed
from gateway.metadata.names import HALF_TOPIC
from gateway.remoting.declared import PUB
from gateway.telemetry.logs import EventLog
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.checks.phases import (
    CHECK_TRANSITIONS,
    WATCH_MS,
    CheckEvent,
    CheckPhase,
    CheckWork,
    next_wake_ms,
)
from gateway.transaction.checks.verdict import Act, HalfFacts, verdict
from gateway.transaction.needs import Asked, LogAccess, TransactionNeeds
from gateway.transaction.records.half_messages import check_body, real_place
from gateway.transaction.records.half_reader import MAX_READ_BYTES, Found, HalfReader
from gateway.transaction.settling import Settling
from gateway.transaction.states import State
from gateway.transaction.tables.check_turns import ProducerGroup
from gateway.transaction.tables.transaction_tables import TransactionTables
from wire.codes import RequestCode
from wire.headers.transaction import CheckTransactionStateRequest
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

log = EventLog("transaction")

GATHER_MS = 10
"""The time in which answers gather before the room that they made is used.

A separate turn for each answer would cost more than the check that the turn sends.
"""
MAX_DUE_A_TURN = 20_000
"""The number of due half messages at which a turn takes no further bucket, so that a turn stays short."""
MAX_CHECKS_A_TURN = 100
"""The largest number of records that are read at once. ``half_reader.MAX_READ_BYTES`` also limits such a batch."""
MAX_DISCARDS_A_TURN = 100
MAX_PRODUCERS_TRIED = 8
MAX_LOOKS_FOR_PRODUCERS: Final = 2_000
"""The most parked groups for which a producer is looked for in one turn, once a second: a millisecond."""

# Every check needs these, and to look up an attribute of an enumeration takes as long as a call.
_PENDING: Final = State.PENDING
_STOPPED: Final = CheckPhase.STOPPED
_ASLEEP: Final = CheckPhase.ASLEEP
_IN_TURN: Final = CheckPhase.IN_TURN

Chosen = tuple[ProducerGroup, int]
"""The group whose turn it is, and the half offset."""


class CheckService:
    """Check the half messages that are due."""

    def __init__(
        self,
        tables: TransactionTables,
        store: LogAccess,
        settling: Settling,
        journal: CheckJournal,
        needs: TransactionNeeds,
    ) -> None:
        self._tables = tables
        self._settling = settling
        self._journal = journal
        self._reader = HalfReader(store, needs.in_thread)
        self._producers = needs.producers
        self._broker_name = needs.broker_name
        self._reactor = needs.reactor
        self._clock_ms = needs.clock_ms
        self._host = needs.host
        self._phase = _STOPPED
        self._call: IDelayedCall | None = None
        self._wake_at_ms = 0
        self._next_watch_ms = 0
        settling.reopened.append(self._reopened)

    # -- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to check."""
        self._happened(CheckEvent.START)
        self._sleep()

    def stop(self) -> None:
        """Stop all checks."""
        self._happened(CheckEvent.STOP)
        if self._call is not None:
            self._call.cancel()
        self._call = None

    def _happened(self, event: CheckEvent) -> CheckPhase:
        """Change to the phase that follows the event, and return the new phase."""
        self._phase = CHECK_TRANSITIONS[self._phase][event]
        return self._phase

    def _sleep(self) -> None:
        """Sleep until there is something to do; without a time limit if nothing is pending."""
        turns, next_ms, now_ms = self._tables.turns, self._tables.due_times.next_ms, self._clock_ms()
        work = CheckWork(
            is_any_pending=self._tables.pending.count > 0,
            is_turn_waiting=turns.is_waiting,
            is_watching=bool(turns.in_flight or turns.is_any_parked),
            due_in_ms=None if next_ms is None else next_ms - now_ms,
        )
        wait_ms = next_wake_ms(self._phase, work)
        if wait_ms is not None:
            self._wake_in(wait_ms, now_ms)

    def _wake_in(self, wait_ms: int, now_ms: int) -> None:
        """Let the next turn start after ``wait_ms``, unless an earlier turn is planned."""
        wake_at_ms = now_ms + wait_ms
        if self._call is not None:
            if self._wake_at_ms <= wake_at_ms:
                return
            self._call.cancel()
        self._wake_at_ms = wake_at_ms
        self._call = self._reactor.callLater(wait_ms / 1_000, self._turn)

    # -- what happens ---------------------------------------------------------------------------------------

    def due(self, due_at_ms: int) -> None:
        """Wake up for a new due time. The caller has already added the half message to the due times."""
        if self._call is None or due_at_ms < self._wake_at_ms:
            self._sleep()

    def check_now(self, offset: int) -> None:
        """Count the checks of a pending half message from 0 again, with the first check at once."""
        due_at_ms = self._be_due(offset, 0)
        self._journal.checked(offset, self._tables.pending.place(offset)[0], due_at_ms, 0)

    def ask_now(self, offset: int) -> None:
        """Let a pending half message be due at once, and keep its count of checks.

        A half message that has had all its checks is asked about once more and not given up.
        """
        tables = self._tables
        self._be_due(offset, min(tables.pending.checks(offset), max(tables.settings.transaction_check_max - 1, 0)))

    def answered(self, offset: int, *, knows: bool) -> None:
        """Note that a producer answered a check, with an outcome (``knows``) or without one."""
        turns = self._tables.turns
        if not knows:
            self._tables.counts.checks_unknown.value += 1
        if turns.answered(offset, knows=knows) and turns.is_waiting and self._phase is _ASLEEP:
            self._wake_in(GATHER_MS, self._clock_ms())

    def _reopened(self, offset: int) -> None:
        """Postpone the next check of a half message that is pending again after its outcome could not be stored."""
        pending, settings = self._tables.pending, self._tables.settings
        self._schedule(offset, self._clock_ms() + settings.transaction_check_interval_ms, pending.checks(offset))

    def _be_due(self, offset: int, checks: int) -> int:
        """Let a half message be due at once, and return its due time.

        A half message that is already due has its turn or waits for a turn. Asking again does not add a second turn.
        """
        now_ms, due_at_ms = self._clock_ms(), self._tables.pending.due_at_ms(offset)
        if due_at_ms <= now_ms:
            self._tables.pending.schedule(offset, due_at_ms, checks)
            return due_at_ms
        self._schedule(offset, now_ms, checks)
        return now_ms

    def _schedule(self, offset: int, due_at_ms: int, checks: int) -> None:
        self._tables.pending.schedule(offset, due_at_ms, checks)
        self._tables.due_times.add(offset, due_at_ms)
        self.due(due_at_ms)

    # -- one turn -------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._call = None
        self._happened(CheckEvent.WAKE)
        try:
            self._look(self._clock_ms())
        finally:
            self._happened(CheckEvent.REST)
        self._rest()

    def _rest(self) -> None:
        self._journal.write(self._tables.pending.count, self._tables.pending.checked)
        self._sleep()

    def _look(self, now_ms: int) -> None:
        """Ask about what is due. While a batch is being read, no other half message is chosen."""
        if now_ms >= self._next_watch_ms:
            self._next_watch_ms = now_ms + WATCH_MS
            self._tables.counts.checks_lost.value += self._tables.turns.expire(now_ms)
            if self._phase is _IN_TURN:
                self._give_up_old(now_ms)
            self._unpark()
        self._take_due(now_ms)
        if self._phase is _IN_TURN:
            self._send_checks(now_ms)

    def _unpark(self) -> None:
        for group in self._tables.turns.parked(MAX_LOOKS_FOR_PRODUCERS):
            if self._producers.pick(group.name) is not None:
                self._tables.turns.unpark(group)

    def _take_due(self, now_ms: int) -> None:
        tables = self._tables
        pending, turns = tables.pending, tables.turns
        taken = 0
        while taken < MAX_DUE_A_TURN and (bucket := tables.due_times.take(now_ms)) is not None:
            taken += len(bucket)
            for offset in bucket:
                if tables.is_undecided(offset) and pending.due_at_ms(offset) <= now_ms:
                    turns.push(pending.group(offset), offset)

    def _read(self, offsets: list[int], done: Callable[[list[Found]], None]) -> None:
        """Read half messages in one batch, and go on with them now, or later in a separate turn."""
        if not offsets:
            return
        pending = self._tables.pending
        self._reader.read([pending.place(offset) for offset in offsets], partial(self._have_read, done))
        if self._reader.is_busy:
            self._happened(CheckEvent.COLD)

    def _have_read(self, done: Callable[[list[Found]], None], found: list[Found]) -> None:
        if self._phase is _IN_TURN:
            done(found)  # all records were in memory; the turn continues
            return
        if self._happened(CheckEvent.READ) is _IN_TURN:
            try:
                done(found)
            finally:
                self._happened(CheckEvent.REST)
            self._rest()

    # -- checking -------------------------------------------------------------------------------------------

    def _send_checks(self, now_ms: int) -> None:
        """Choose the half messages whose turn it is, read their records, and ask."""
        tables = self._tables
        chosen: list[Chosen] = []
        read_bytes = 0
        while len(chosen) < MAX_CHECKS_A_TURN and read_bytes < MAX_READ_BYTES:
            turn = tables.turns.next_turn()
            if turn is None:
                break
            group, offset = turn
            if tables.is_undecided(offset) and self._is_due(offset, now_ms):
                # Otherwise the half message was checked or postponed since; its new due time has a separate entry.
                tables.turns.hold(group)
                chosen.append(turn)
                read_bytes += tables.pending.place(offset)[1]
        self._read([offset for _, offset in chosen], partial(self._check, chosen))

    def _is_due(self, offset: int, now_ms: int) -> bool:
        return self._tables.pending.due_at_ms(offset) <= now_ms or self._is_old(offset, now_ms)

    def _check(self, chosen: list[Chosen], found: list[Found]) -> None:
        """Ask about the half messages that were read, in the order of their turns."""
        tables, now_ms = self._tables, self._clock_ms()
        waiting: list[Chosen] = []
        without_producer: set[int] = set()
        for (group, offset), half in zip(chosen, found, strict=True):
            if tables.is_undecided(offset):
                if group.number in without_producer:
                    waiting.append((group, offset))
                elif not self._has_judged(group, offset, half, now_ms):
                    waiting.append((group, offset))
                    without_producer.add(group.number)
            tables.turns.release(group)
        for group, offset in reversed(waiting):  # reversed, because each goes to the front of its group
            tables.turns.park(group, offset)

    def _has_judged(self, group: ProducerGroup, offset: int, half: Found, now_ms: int) -> bool:
        """Check or give up one half message; return False if no producer of its group can be asked."""
        try:
            return self._judge(group, offset, half, now_ms)
        except Exception as error:  # noqa: BLE001 - a service loop: one half message must not stop the others
            log.error("check failed", failure=error, half_offset=offset, group=group.name)
            if offset in self._tables.pending:
                self._later(offset, now_ms, self._tables.pending.checks(offset))
            return True

    def _judge(self, group: ProducerGroup, offset: int, found: Found, now_ms: int) -> bool:
        tables = self._tables
        checks = tables.pending.checks(offset)
        facts = HalfFacts(tables.pending.stored_at_ms(offset), tables.pending.due_at_ms(offset), checks)
        decision = verdict(facts, tables.settings, now_ms)
        half = self._readable(offset, found)
        if half is None or decision.act is Act.TOO_YOUNG:  # postponed during the read
            return True
        if real_place(half.property_map) is None:
            # A stand-in of ``store repair``, or a record of another program: nobody could ever commit the message.
            self._settling.discard(half, checks, "it does not name its real topic")
            return True
        if decision.act is Act.DISCARD:
            self._settling.discard(half, checks, decision.reason)
            return True
        asked = self._ask(group.name, half)
        if asked is None:
            return False
        tables.asked.put(offset, asked)
        tables.recent.keep_asked(half)  # needed for the answer
        tables.turns.sent(group, offset, now_ms)
        tables.counts.checks_sent.value += 1
        self._later(offset, now_ms, checks + 1, group.patience)
        return True

    def _ask(self, group: str, half: StoredMessage) -> tuple[str, int] | None:
        """Hand the check to one producer of the group; return the producer's address and port.

        None if none of up to ``MAX_PRODUCERS_TRIED`` connections takes the check.

        :raises ValueError: the half message does not name its real topic.
        """
        body = check_body(half)
        if body is None:
            raise ValueError("the half message does not name its real topic")
        header = CheckTransactionStateRequest(
            topic=HALF_TOPIC,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.commit_log_offset,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            offset_msg_id=half.offset_message_id,
            bname=self._broker_name,
        )
        needs = topic_needs(half.property_map[PropertyName.REAL_TOPIC], PUB)  # others may not see the message
        tried: list[Asked] = []
        while len(tried) < MAX_PRODUCERS_TRIED:
            producer = self._producers.pick(group, tried, needs)
            if producer is None:
                return None
            if producer.notify(RequestCode.CHECK_TRANSACTION_STATE, header, body):
                return producer.remote
            tried.append(producer)
        return None

    def _readable(self, offset: int, found: Found) -> StoredMessage | None:
        """Return the half message; give it up if its record is gone, because nobody could ever commit it.

        :raises Exception: the record could not be read.
        """
        if isinstance(found, Failed):
            raise found.error
        if found is None:
            self._settling.discard_lost(offset, self._host, "its record is not in the commit log any more")
        return found

    def _later(self, offset: int, now_ms: int, checks: int, intervals: int = 1) -> None:
        tables = self._tables
        due_at_ms = now_ms + tables.settings.transaction_check_interval_ms * intervals
        tables.pending.schedule(offset, due_at_ms, checks)
        tables.due_times.add(offset, due_at_ms)
        self._journal.checked(offset, tables.pending.place(offset)[0], due_at_ms, checks)

    # -- giving up ------------------------------------------------------------------------------------------

    def _give_up_old(self, now_ms: int) -> None:
        """Discard the half messages that are over the age limit. The oldest half message is always the base."""
        tables = self._tables
        pending = tables.pending
        if not pending.count or not self._is_old(pending.base, now_ms):
            return
        old: list[int] = []
        read_bytes = 0
        for offset in islice(pending, MAX_DISCARDS_A_TURN):
            if not self._is_old(offset, now_ms) or read_bytes >= MAX_READ_BYTES:
                break
            if tables.outcomes.state(offset) is _PENDING:
                old.append(offset)
                read_bytes += pending.place(offset)[1]
        self._read(old, partial(self._discard_old, old))

    def _discard_old(self, old: list[int], found: list[Found]) -> None:
        tables, now_ms = self._tables, self._clock_ms()
        for offset, each in zip(old, found, strict=True):
            if not tables.is_undecided(offset):
                continue
            if isinstance(each, Failed):
                log.error("half message not given up", half_offset=offset, error=str(each.error))
            elif (half := self._readable(offset, each)) is not None:
                checks = tables.pending.checks(offset)
                facts = HalfFacts(tables.pending.stored_at_ms(offset), now_ms, checks)
                self._settling.discard(half, checks, verdict(facts, tables.settings, now_ms).reason)

    def _is_old(self, offset: int, now_ms: int) -> bool:
        return now_ms - self._tables.pending.stored_at_ms(offset) > self._tables.settings.file_reserved_time_ms
