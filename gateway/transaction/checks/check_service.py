"""Asks producers what became of half messages they did not settle: the I/O around ``verdict``.

Wakes when the next half message is due, once a second while something waits for an answer or a producer,
and not at all when nothing is pending. A check is one one-way request over the connection of a live
producer; if that cannot take it, the next one of the group is tried. Nothing is written to the commit log.
Upstream: ``TransactionalMessageServiceImpl.check``, which reads the half queue in rounds and writes every
checked message again.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from gateway.clock import Milliseconds
from gateway.in_thread import InThread
from gateway.metadata.names import HALF_TOPIC
from gateway.telemetry.logs import EventLog
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.checks.verdict import Act, HalfFacts, verdict
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.limits import TransactionLimits
from gateway.transaction.log_access import Asked, LogAccess, ProducerChoice
from gateway.transaction.records.half_messages import check_body, real_place
from gateway.transaction.records.half_reader import MAX_READ_BYTES, Found, HalfReader
from gateway.transaction.settling import Settling
from gateway.transaction.states import State
from gateway.transaction.tables.check_turns import CheckTurns, ProducerGroup
from gateway.transaction.tables.due_times import DueTimes
from gateway.transaction.tables.lately import Lately
from gateway.transaction.tables.outcomes import Outcomes
from gateway.transaction.tables.pending import Pending
from gateway.transaction.tables.recent_halves import RecentHalves
from wire.codes import RequestCode
from wire.headers.transaction import CheckTransactionStateRequest
from wire.message.record import StoredMessage

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall, IReactorTime

log = EventLog("transaction")

WATCH_MS = 1_000
"""How often overdue answers, parked groups and old half messages are looked at while there are any."""
GATHER_MS = 10
"""Answers make room for further checks: those that come in this time make it together. A turn for each of them cost
more than the check it sends.
"""
MAX_PRODUCERS_TRIED = 8
MAX_DUE_A_TURN = 20_000
"""Half messages that become due together are taken out in parts of this size: a turn stays short."""
MAX_CHECKS_A_TURN = 100
"""Records that are read together; also those of ``half_reader.MAX_READ_BYTES`` at most."""
MAX_REMEMBERED_ASKED = 100_000
"""Half messages of which it is remembered who was asked last, for people who look."""
MAX_DISCARDS_A_TURN = 100

Chosen = tuple[ProducerGroup, int]
"""Whose turn it is: the group and the half offset."""


class CheckService:
    """Checks what is due.

    :param clock_ms: a steady clock (``steady_clock``).
    :param host: the broker's packed address, for op records of half messages that cannot be read.
    :param in_thread: runs a blocking function in a thread: records may have to come from the disk.
    :param broker_name: told to producers with each check, as brokers of 5.x do.
    """

    def __init__(
        self,
        *,
        store: LogAccess,
        producers: ProducerChoice,
        reactor: IReactorTime,
        clock_ms: Milliseconds,
        limits: TransactionLimits,
        outcomes: Outcomes,
        pending: Pending,
        due_times: DueTimes,
        turns: CheckTurns,
        settling: Settling,
        journal: CheckJournal,
        counts: TransactionCounts,
        recent: RecentHalves,
        host: bytes,
        in_thread: InThread,
        broker_name: str | None = None,
    ) -> None:
        self._broker_name = broker_name
        self._reader = HalfReader(store, in_thread)
        self._recent = recent
        self._producers = producers
        self._reactor = reactor
        self._clock_ms = clock_ms
        self._limits = limits
        self._outcomes = outcomes
        self._pending = pending
        self._due_times = due_times
        self._turns = turns
        self._settling = settling
        self._journal = journal
        self._counts = counts
        self._host = host
        self._call: IDelayedCall | None = None
        self._wake_at_ms = 0
        self._running = False
        self._in_turn = False
        self._next_old_ms = 0
        self.asked: Lately[tuple[str, int]] = Lately(MAX_REMEMBERED_ASKED)
        """Address and port of the producer that got the last check of a half message, by half offset."""

    def start(self) -> None:
        """Begin to check."""
        self._running = True
        self._sleep()

    def stop(self) -> None:
        """Check nothing more."""
        self._running = False
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def schedule(self, offset: int, due_at_ms: int) -> None:
        """A half message is pending and due at a time."""
        self._due_times.add(offset, due_at_ms)
        self.due(due_at_ms)

    def due(self, due_at_ms: int) -> None:
        """Something has a due time from now on; it is among the due times already."""
        if self._call is None or due_at_ms < self._wake_at_ms:
            self._sleep()

    def reopened(self, offset: int) -> None:
        """The outcome of a half message could not be stored: it is pending again, for another interval."""
        due_at_ms = self._clock_ms() + self._limits.check_interval_ms
        self._pending.schedule(offset, due_at_ms, self._pending.checks(offset))
        self.schedule(offset, due_at_ms)

    def check_now(self, offset: int) -> None:
        """Start the checks of a pending half message again, beginning at once."""
        due_at_ms = self._be_due(offset, 0)
        self._journal.checked(offset, self._pending.place(offset)[0], due_at_ms, 0)

    def ask_now(self, offset: int) -> None:
        """Let a pending half message be due at once; its checks are counted on.

        One that has had all its checks is asked about once more rather than given up.
        """
        self._be_due(offset, min(self._pending.checks(offset), max(self._limits.check_max - 1, 0)))

    def _be_due(self, offset: int, checks: int) -> int:
        """Let a half message be due at once; since when it is. One that is due has its turn already, or waits for it:
        somebody who asks again and again gets it no second one.
        """
        now_ms, due_at_ms = self._clock_ms(), self._pending.due_at_ms(offset)
        if due_at_ms <= now_ms:
            self._pending.schedule(offset, due_at_ms, checks)
            return due_at_ms
        self._pending.schedule(offset, now_ms, checks)
        self.schedule(offset, now_ms)
        return now_ms

    def answered(self, offset: int, *, knows: bool) -> None:
        """A producer answered a check, with an outcome or without one."""
        if self._turns.answered(offset, knows=knows) and self._turns.is_waiting and not self._reader.is_busy:
            self._wake_in(GATHER_MS)

    # -- one turn -------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._call = None
        now_ms = self._clock_ms()
        if now_ms >= self._next_old_ms:
            self._next_old_ms = now_ms + WATCH_MS
            self._counts.checks_lost.value += self._turns.expire(now_ms)
            self._give_up_old(now_ms)
            self._unpark()
        self._take_due(now_ms)
        self._send_checks(now_ms)
        self._end_turn()

    def _end_turn(self) -> None:
        self._journal.write(self._pending.count, self._pending.checked)
        self._sleep()

    def _take_due(self, now_ms: int) -> None:
        pending, turns = self._pending, self._turns
        taken = 0
        while taken < MAX_DUE_A_TURN and (bucket := self._due_times.take(now_ms)) is not None:
            taken += len(bucket)
            for offset in bucket:
                if self._is_open(offset) and pending.due_at_ms(offset) <= now_ms:
                    turns.push(pending.group(offset), offset)

    def _is_open(self, offset: int) -> bool:
        return offset in self._pending and self._outcomes.state(offset) is State.PENDING

    def _is_due(self, offset: int, now_ms: int) -> bool:
        return self._pending.due_at_ms(offset) <= now_ms or self._is_old(offset, now_ms)

    def _send_checks(self, now_ms: int) -> None:
        """Choose whose turn it is, read their records, and ask; nobody else is chosen until that is done."""
        if self._reader.is_busy:
            return
        chosen: list[Chosen] = []
        read_bytes = 0
        while len(chosen) < MAX_CHECKS_A_TURN and read_bytes < MAX_READ_BYTES:
            turn = self._turns.next_turn()
            if turn is None:
                break
            group, offset = turn
            if self._is_open(offset) and self._is_due(offset, now_ms):
                # Else checked or put off since it became due; the new time has an entry of its own.
                self._turns.hold(group)
                chosen.append(turn)
                read_bytes += self._pending.place(offset)[1]
        self._read([offset for _, offset in chosen], partial(self._check, chosen))

    def _read(self, offsets: list[int], done: Callable[[list[Found]], None]) -> None:
        """Read half messages in one batch, and go on with them now or in a later turn."""
        if not offsets:
            return
        self._in_turn = True
        try:
            self._reader.read([self._pending.place(offset) for offset in offsets], partial(self._have_read, done))
        finally:
            self._in_turn = False

    def _have_read(self, done: Callable[[list[Found]], None], found: list[Found]) -> None:
        done(found)
        if self._running and not self._in_turn:
            self._end_turn()

    def _check(self, chosen: list[Chosen], found: list[Found]) -> None:
        """Ask about those that were read, in the order of their turns."""
        now_ms = self._clock_ms()
        waiting: list[Chosen] = []
        without_producer: set[int] = set()
        for (group, offset), half in zip(chosen, found, strict=True):
            if self._running and self._is_open(offset):
                if group.number in without_producer:
                    waiting.append((group, offset))
                elif not self._has_judged(group, offset, half, now_ms):
                    waiting.append((group, offset))
                    without_producer.add(group.number)
            self._turns.release(group)
        for group, offset in reversed(waiting):  # each goes to the front of its group
            self._turns.park(group, offset)

    def _has_judged(self, group: ProducerGroup, offset: int, half: Found, now_ms: int) -> bool:
        """Check or give up one half message; False when no producer of its group can be asked."""
        try:
            return self._judge(group, offset, half, now_ms)
        except Exception as error:  # noqa: BLE001 - a service loop: one half message must not stop the others
            log.error("check failed", failure=error, half_offset=offset, group=group.name)
            if offset in self._pending:
                self._later(offset, now_ms, self._pending.checks(offset))
            return True

    def _judge(self, group: ProducerGroup, offset: int, found: Found, now_ms: int) -> bool:
        checks = self._pending.checks(offset)
        facts = HalfFacts(self._pending.stored_at_ms(offset), self._pending.due_at_ms(offset), checks)
        decision = verdict(facts, self._limits, now_ms)
        half = self._readable(offset, found)
        if half is None or decision.act is Act.TOO_YOUNG:  # put off while it was read
            return True
        if real_place(half.property_map) is None:
            # Nobody could ever commit it: a stand-in of ``store repair``, or a record somebody else made.
            self._settling.discard(half, checks, "it does not name its real topic")
        elif decision.act is Act.DISCARD:
            self._settling.discard(half, checks, decision.reason)
        elif self._ask(group, half):
            self._recent.keep_asked(half)  # the answer needs it
            self._turns.sent(group, offset, now_ms)
            self._counts.checks_sent.value += 1
            self._later(offset, now_ms, checks + 1, group.patience)
        else:
            return False
        return True

    def _readable(self, offset: int, found: Found) -> StoredMessage | None:
        """The half message; when its record is gone, it is given up, as nobody could ever commit it.

        :raises Exception: it could not be read.
        """
        if isinstance(found, Exception):
            raise found
        if found is None:
            self._settling.discard_lost(offset, self._host, "its record is not in the commit log any more")
        return found

    def _later(self, offset: int, now_ms: int, checks: int, intervals: int = 1) -> None:
        due_at_ms = now_ms + self._limits.check_interval_ms * intervals
        self._pending.schedule(offset, due_at_ms, checks)
        self._due_times.add(offset, due_at_ms)
        self._journal.checked(offset, self._pending.place(offset)[0], due_at_ms, checks)

    def _ask(self, group: ProducerGroup, half: StoredMessage) -> bool:
        """Hand the check to one living producer of the group; False when none takes it."""
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
        tried: list[Asked] = []
        while len(tried) < MAX_PRODUCERS_TRIED:
            producer = self._producers.pick(group.name, tried)
            if producer is None:
                return False
            if producer.notify(RequestCode.CHECK_TRANSACTION_STATE, header, body):
                self.asked.put(half.queue_offset, producer.remote)
                return True
            tried.append(producer)
        return False

    # -- waiting --------------------------------------------------------------------------------------------

    def _give_up_old(self, now_ms: int) -> None:
        """Discard what is over the age limit; the oldest half message is always the base."""
        pending = self._pending
        if self._reader.is_busy or not pending.count or not self._is_old(pending.base, now_ms):
            return
        old: list[int] = []
        read_bytes = 0
        for offset in islice(pending, MAX_DISCARDS_A_TURN):
            if not self._is_old(offset, now_ms) or read_bytes >= MAX_READ_BYTES:
                break
            if self._outcomes.state(offset) is State.PENDING:
                old.append(offset)
                read_bytes += pending.place(offset)[1]
        self._read(old, partial(self._discard_old, old))

    def _discard_old(self, old: list[int], found: list[Found]) -> None:
        now_ms = self._clock_ms()
        for offset, each in zip(old, found, strict=True):
            if not (self._running and self._is_open(offset)):
                continue
            if isinstance(each, Exception):
                log.error("half message not given up", half_offset=offset, error=str(each))
            elif (half := self._readable(offset, each)) is not None:
                checks = self._pending.checks(offset)
                facts = HalfFacts(self._pending.stored_at_ms(offset), now_ms, checks)
                self._settling.discard(half, checks, verdict(facts, self._limits, now_ms).reason)

    def _is_old(self, offset: int, now_ms: int) -> bool:
        return now_ms - self._pending.stored_at_ms(offset) > self._limits.max_age_ms

    def _unpark(self) -> None:
        for group in self._turns.parked():
            if self._producers.pick(group.name) is not None:
                self._turns.unpark(group)

    def _sleep(self) -> None:
        """Sleep until there is something to do; without an end when nothing is pending."""
        if not self._running or self._pending.count == 0:
            return
        if self._turns.is_waiting and not self._reader.is_busy:
            self._wake_in(0)
            return
        next_ms = self._due_times.next_ms
        now_ms = self._clock_ms()
        wait_ms = WATCH_MS if self._turns.in_flight or self._turns.parked() else _LONGEST_SLEEP_MS
        if next_ms is not None:
            wait_ms = min(wait_ms, next_ms - now_ms)
        self._wake_in(max(wait_ms, 0))

    def _wake_in(self, wait_ms: int) -> None:
        if not self._running:
            return
        wake_at_ms = self._clock_ms() + wait_ms
        if self._call is not None and self._call.active():
            if self._wake_at_ms <= wake_at_ms:
                return
            self._call.cancel()
        self._wake_at_ms = wake_at_ms
        self._call = self._reactor.callLater(wait_ms / 1_000, self._turn)


_LONGEST_SLEEP_MS = 60_000
