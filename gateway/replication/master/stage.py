"""The stage REPLICATED: a batch that is on disk here becomes visible when enough slaves have it.

    stored → held → enough slaves have it → visible, and its senders are answered PUT_OK
                  → too few slaves in sync  → its senders are answered SLAVE_NOT_AVAILABLE at once
                  → ``slaveTimeout`` is over → its senders are answered FLUSH_SLAVE_TIMEOUT

After a restart, what was on the disk and is not known to be replicated is hidden until enough slaves report it.

A batch that was answered without a copy stays held, and becomes visible when the slaves have it. At an orderly stop,
when nobody reads any more, everything held is passed on; the next start hides it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from gateway.replication.hidden_tail import HiddenTail
from gateway.replication.master.copies import CountedCopies
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings.replication import ReplicationSettings
from gateway.store.durability.surroundings import BatchObserver, Cancel
from gateway.store.log.log_batch import LogBatch
from gateway.store.put_result import PutResult, PutStatus
from gateway.telemetry.logs import EventLog

log = EventLog("replication")

MAX_FOLLOWING = 10_000
"""The number of requests that may wait for held messages to become visible."""


class ReplicatedStage:
    """The observer between the disk and ``Publication``.

    :param after: the observer that gets the batches which are replicated.
    :param moved: called with every batch that is on disk here.
    :param lags: called with the reason why messages have to be refused, or None when they need not be any more.
    """

    def __init__(
        self,
        after: BatchObserver,
        copies: CountedCopies,
        settings: ReplicationSettings,
        around: ReplicationSurroundings,
        *,
        moved: Callable[[LogBatch], None],
        lags: Callable[[str | None], None],
    ) -> None:
        self._pass_on = after.stored
        self.failed = after.failed
        self.hasty = after.hasty
        self.overdue = after.overdue
        self._copies = copies
        self._moved = moved
        self._lags = lags
        self._timeout_ms = settings.slave_timeout_ms
        self._max_held_bytes = settings.max_unreplicated_bytes
        self._seconds: Callable[[], float] = around.reactor.seconds
        self._later = around.later
        self._held: deque[LogBatch] = deque()
        self._waiting: deque[tuple[int, LogBatch]] = deque()
        self._cancel: Cancel | None = None
        self._passed_end = self._stored_end = 0  # read by the thread that shows metrics
        self._is_behind = False
        self._is_told = False
        self._passes = False
        self._answered_callbacks: list[Callable[[], None]] = []
        self._following: list[tuple[int, int, Callable[[], None]]] = []
        self._followed = count()
        self._tail: HiddenTail | None = None
        around.registry.watch(
            "rocketmq_gateway_replica_held_bytes",
            "Bytes stored here that consumers do not see, because too few slaves have them",
            lambda: self.held_bytes,
        )
        self._without_copy = around.registry.counter(
            "rocketmq_gateway_replica_answered_without_total", "Messages answered before enough slaves had them"
        )

    def begin(self, tail: HiddenTail) -> None:
        """Take what a start hides, which is shown as slaves report it."""
        self._tail = tail
        self._passed_end, self._stored_end = tail.shown_end, tail.end
        tail.when_shown(self._shown)
        self.reported()

    @property
    def held_bytes(self) -> int:
        """The bytes of the log that are on disk here, and that too few slaves have."""
        return max(self._stored_end - self._passed_end, 0)

    def stored(self, batch: LogBatch) -> None:
        """Hold a batch that is on disk, and answer its senders if there is nobody to wait for."""
        if not self._held and (self._tail is None or not self._tail.bytes):
            self._passed_end = batch.start
        self._stored_end = batch.end
        self._held.append(batch)
        if batch.has_hasty:  # if the sync was quicker than the answers of those who do not wait for it
            self.hasty(batch)
        answer = self._copies.answer_without_waiting(batch.start)
        if self._passes:
            self._answer(batch, answer or PutStatus.FLUSH_SLAVE_TIMEOUT)
            self.reported()
        elif answer is not None:
            self._answer(batch, answer)
        elif batch.waiters:
            self._waiting.append((self._now_ms() + self._timeout_ms, batch))
            self._watch()
        if self._copies.counts_alone:
            self.reported()
        self._judge_lag()
        self._moved(batch)

    def reported(self) -> None:
        """Pass on the batches that enough slaves have by now."""
        end = self._copies.replicated_end
        if self._tail is not None:
            self._tail.note(min(end, self._stored_end))
            self._tail.show_to(end)
        if self._passes and self._held:
            end = self._held[-1].end
        elif self._tail is not None and self._tail.bytes:
            end = self._tail.shown_end  # the rest is shown first
        while self._held and self._held[0].end <= end:
            batch = self._held.popleft()
            self._passed_end = batch.end
            if self._waiting and self._waiting[0][1] is batch:
                self._waiting.popleft()
                if self._is_told:
                    self._is_told = False
                    log.info("slaves have what senders wait for again")
            self._pass_on(batch)
            self._let_follow()
        self._judge_lag()
        self._tell_answered()

    def _shown(self) -> None:
        """Take that a part of what the start hid is shown."""
        tail = self._tail
        if self._passes or tail is None:
            return
        self._passed_end = tail.shown_end
        self._let_follow()
        if not tail.bytes:
            log.info("enough slaves have what was hidden since the start", log_end=tail.end)
            self.reported()

    def when_answered(self, callback: Callable[[], None]) -> None:
        """Call back once when no sender waits for slaves: after ``slaveTimeout`` at the latest, if nothing is sent."""
        self._answered_callbacks.append(callback)
        self._tell_answered()

    def follow(self, commit_log_offset: int, callback: Callable[[], None]) -> bool:
        """Call back when the held message at a place is visible; return False if no held message is there.

        Return False also if ``MAX_FOLLOWING`` callbacks wait.
        """
        if not self._passed_end <= commit_log_offset < self._stored_end or len(self._following) >= MAX_FOLLOWING:
            return False
        heappush(self._following, (commit_log_offset, next(self._followed), callback))
        return True

    def _let_follow(self) -> None:
        while self._following and self._following[0][0] < self._passed_end:
            callback = heappop(self._following)[2]
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - one request's failure must not keep the others waiting
                log.error("callback failed", failure=error)

    def _tell_answered(self) -> None:
        if not self._waiting:
            callbacks, self._answered_callbacks = self._answered_callbacks, []
            for callback in callbacks:
                callback()

    def let_all_pass(self) -> None:
        """Hold back no more batches, because the broker stops and nobody reads any more."""
        if self._held:
            log.warning("too few slaves have the last messages, the next start hides them", bytes=self.held_bytes)
        while self._waiting:
            self._answer(self._waiting.popleft()[1], PutStatus.FLUSH_SLAVE_TIMEOUT)
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        self._passes = True
        self.reported()
        self._passed_end = self._stored_end  # what is still hidden is not found by those who follow
        self._let_follow()

    # -- senders that wait ----------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        """Return a time that nobody sets back: a sender, and a stop of the broker, would wait for as long."""
        return round(self._seconds() * 1_000)

    def _watch(self) -> None:
        if self._cancel is None and self._waiting:
            self._cancel = self._later(max(self._waiting[0][0] - self._now_ms(), 1), self._look)

    def _look(self) -> None:
        self._cancel = None
        now_ms = self._now_ms()
        while self._waiting and self._waiting[0][0] <= now_ms:
            self._answer(self._waiting.popleft()[1], PutStatus.FLUSH_SLAVE_TIMEOUT)
        self._watch()
        self._tell_answered()

    def _answer(self, batch: LogBatch, status: PutStatus) -> None:
        """Answer the senders of a batch before slaves have it; listeners are notified later, of stored messages."""
        if not self._is_told:
            self._is_told = True
            log.warning("senders are answered without a copy", answer=status.name, slaves_needed=self._copies.needed)
        waiters, batch.waiters = batch.waiters, []
        for callback, told, _ in waiters:
            outcomes = [told] if isinstance(told, PutResult) else told
            for outcome in outcomes:
                outcome.status = status
            self._without_copy.at(answer=status.name).value += sum(outcome.count for outcome in outcomes)
            try:
                callback(told)
            except Exception as error:  # noqa: BLE001 - one sender's failure must not keep the others' answers
                log.error("callback failed", failure=error)
            for outcome in outcomes:
                outcome.status = PutStatus.PUT_OK

    def _judge_lag(self) -> None:
        held = self.held_bytes
        if not self._is_behind and held > self._max_held_bytes:
            self._is_behind = True
            self._lags(
                f"{held} bytes of messages wait for slaves, more than gateway.maxUnreplicatedBytes allows; "
                "see the broker's log"
            )
        elif self._is_behind and held <= self._max_held_bytes // 2:
            self._is_behind = False
            self._lags(None)
