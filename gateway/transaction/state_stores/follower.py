"""Bring the changes of half messages to a table or a database, shortly after the log and never ahead of the disk.

Changes gather and are closed into a batch. The batch waits until its log records are on disk, and is then applied in a
thread, one batch after the other. While the store cannot be reached, changes stay in memory up to a limit; after that
half messages are refused. Nothing can be lost: the log has everything, and the next start reads what the store does not
know. Asleep while nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gateway.in_thread import Failed
from gateway.telemetry.logs import EventLog
from gateway.transaction.needs import LogAccess, TransactionNeeds
from gateway.transaction.state_stores.changes import (
    Changes,
    Prepared,
    Settled,
    StatesLost,
    StatesUnavailable,
    TransactionStates,
)
from gateway.transaction.tables.transaction_tables import TransactionTables

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall

log = EventLog("transaction")

GATHER_MS = 100
"""The time in which changes gather. Half messages that are settled within this time cost a database nothing."""
RETRY_MS = 1_000
POSITION_STEP_BYTES = 64 << 20
"""The number of log bytes after which the position moves on in any case, because a start reads what follows it."""
CHANGES_LIMIT = 10_000
COMPACT_PART = 10
"""The divisor that decides when waiting changes are compacted while a store fails.

Compaction starts once new outcomes are a tenth of the waiting half messages.
"""


class StateFollower:
    """Follow the transactions of one broker.

    :param limit: how many half messages may wait for a store that cannot be reached.
    """

    def __init__(
        self, tables: TransactionTables, store: LogAccess, needs: TransactionNeeds, limit: int = CHANGES_LIMIT
    ) -> None:
        self._tables = tables
        self._store = store
        self._reactor = needs.reactor
        self._clock_ms = needs.clock_ms
        self._in_thread = needs.in_thread
        self._limit = limit
        self._states: TransactionStates | None = None
        self._gathered = Changes()
        self._batch: Changes | None = None
        self._is_applying = False
        self._call: IDelayedCall | None = None
        self._stopped: Callable[[], None] | None = None
        self._visible = 0
        self._position = 0
        self._failing_since_ms: int | None = None
        self._reason = ""
        self._compacted = 0

    # -- life -----------------------------------------------------------------------------------------------

    def begin(self, states: TransactionStates, prepared: Sequence[Prepared], settled: Sequence[Settled]) -> None:
        """Bring changes to this store from now on, starting with the changes that a start found."""
        self._states = states
        self._gathered.prepared += prepared
        self._gathered.settled += settled
        self._visible = self._store.max_commit_log_offset

    def begin_anew(self, states: TransactionStates) -> None:
        """Tell this store everything, because what it knew does not count any more; blocks.

        A store that cannot be reached is told as soon as it can.

        :raises OSError: files of the store cannot be written.
        :raises GatewayError: the store belongs to another broker.
        """
        self._states = states
        self._visible = self._store.max_commit_log_offset
        self._tell_everything()
        assert self._batch is not None, "everything is a batch"
        try:
            states.apply(self._batch)
        except StatesUnavailable as error:
            self._failed(error)
        else:
            self._position = self._batch.position
            self._batch = None

    def start(self) -> None:
        """Start to work."""
        self._wake()

    def stop(self, stopped: Callable[[], None]) -> None:
        """Apply what is left, if that is possible at once, and close the store; then call ``stopped``."""
        self._stopped = stopped
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None
        if not self._is_applying:
            self._end()

    @property
    def refusal(self) -> str | None:
        """The reason, as a sentence, why half messages are refused now; None if they are taken."""
        if self._failing_since_ms is None or self.waiting <= self._limit:
            return None
        self._compact()
        if self.waiting <= self._limit:
            return None
        seconds = (self._clock_ms() - self._failing_since_ms) // 1_000
        return (
            f"{self.waiting} half messages wait for the transaction state store (gateway.transactionChangesLimit="
            f"{self._limit}), which has failed for {seconds} s: {self._reason}"
        )

    @property
    def waiting(self) -> int:
        """The number of half messages that the store does not know yet."""
        return len(self._gathered.prepared) + (len(self._batch.prepared) if self._batch is not None else 0)

    def _compact(self) -> None:
        """Drop the changes that a store no longer needs, whenever enough outcomes came in to be worth the work."""
        gathered, states = self._gathered, self._states
        grown = len(gathered.settled) - self._compacted
        if states is not None and not states.keeps_settled and grown * COMPACT_PART >= len(gathered.prepared):
            gathered.drop_settled()
            self._compacted = len(gathered.settled)

    # -- what happens ---------------------------------------------------------------------------------------

    def prepared(self, half: Prepared) -> None:
        """Note a half message that is stored and visible."""
        self._gathered.prepared.append(half)
        self._reach(half.place + half.size)

    def settled(self, half: Settled) -> None:
        """Note that a half message has its outcome, and that the record that settles it is stored."""
        self._gathered.settled.append(half)
        self._reach(half.record_place + half.record_bytes)

    def visible(self, log_end: int) -> None:
        """Note that everything below ``log_end`` is visible and that its changes of transactions were noted here."""
        self._visible = log_end
        if log_end - self._position >= POSITION_STEP_BYTES:
            self._wake()

    def _reach(self, log_end: int) -> None:
        if log_end > self._gathered.log_end:
            self._gathered.log_end = log_end
        if self._call is None:
            self._wake()

    # -- applying -------------------------------------------------------------------------------------------

    def _wake(self, after_ms: int = GATHER_MS) -> None:
        if self._call is None and self._states is not None and self._stopped is None:
            self._call = self._reactor.callLater(after_ms / 1_000, self._look)

    def _look(self) -> None:
        self._call = None
        if self._is_applying:
            return
        self._close_batch()
        if self._batch is None:
            return
        if self._store.flushed_offset >= self._batch.log_end:
            self._apply(self._batch)
        else:
            self._wake()

    def _close_batch(self) -> None:
        """Make the gathered changes the next batch, unless a batch waits already.

        Only the reactor calls this, and never a callback of the store, so everything visible has been noted.
        """
        gathered = self._gathered
        moved = self._visible - self._position
        is_due = bool(gathered.prepared or gathered.settled) or moved >= POSITION_STEP_BYTES
        if self._batch is None and (is_due or (self._stopped is not None and moved)):
            gathered.position = self._visible
            gathered.first, gathered.half_end = self._tables.pending.base, self._tables.pending.end
            gathered.log_end = max(gathered.log_end, gathered.position)
            self._batch, self._gathered, self._compacted = gathered, Changes(), 0

    def _apply(self, batch: Changes) -> None:
        assert self._states is not None, "a batch is only made when there is a store"
        states = self._states
        self._is_applying = True
        self._in_thread(lambda: states.apply(batch), self._applied)

    def _applied(self, result: object) -> None:
        self._is_applying = False
        if not isinstance(result, Failed):
            assert self._batch is not None, "it was applied"
            self._position = self._batch.position
            self._batch = None
            self._succeeded()
            self._after(GATHER_MS)
        elif isinstance(result.error, StatesLost) and self._batch is not None and not self._batch.is_whole:
            log.warning("transaction state store is told everything again", reason=str(result.error))
            self._tell_everything()
            self._after(0 if self._failing_since_ms is None else RETRY_MS)
        else:
            self._failed(result.error)
            self._after(RETRY_MS)

    def _tell_everything(self) -> None:
        """Replace the batch by all pending half messages, which include the changes that have gathered since."""
        whole = Changes(prepared=list(self._all_pending()), is_whole=True)
        whole.position = self._visible
        whole.first, whole.half_end = self._tables.pending.base, self._tables.pending.end
        earlier = self._batch.log_end if self._batch is not None else 0
        whole.log_end = max(whole.position, self._gathered.log_end, earlier)
        self._batch, self._gathered, self._compacted = whole, Changes(), 0

    def _all_pending(self) -> Iterator[Prepared]:
        pending, turns = self._tables.pending, self._tables.turns
        for offset in pending:
            group = turns.name(pending.group(offset))
            yield Prepared(offset, *pending.place(offset), pending.stored_at_ms(offset), group)

    def _failed(self, reason: BaseException) -> None:
        self._reason = str(reason) or type(reason).__name__
        if self._failing_since_ms is None:
            self._failing_since_ms = self._clock_ms()
            log.error("transaction state store failed; tried again every second", reason=self._reason)

    def _succeeded(self) -> None:
        if self._failing_since_ms is not None:
            log.info("transaction state store is back", after_ms=self._clock_ms() - self._failing_since_ms)
            self._failing_since_ms = None

    def _after(self, wait_ms: int) -> None:
        if self._stopped is not None:
            self._end()
        elif self._batch is not None or self._gathered.prepared or self._gathered.settled:
            self._wake(wait_ms)

    # -- ending ---------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Apply the last batch if its log records are on disk and the store works, then close the store."""
        self._close_batch()
        batch = self._batch
        can_apply = self._states is not None and self._failing_since_ms is None
        if batch is not None and can_apply and self._store.flushed_offset >= batch.log_end:
            self._apply(batch)
            return
        stopped, self._stopped = self._stopped, None
        states, self._states = self._states, None
        if states is None:
            if stopped is not None:
                stopped()
            return

        def closed(result: object) -> None:
            if isinstance(result, Failed):
                log.error("transaction state store not closed", reason=str(result.error))
            if stopped is not None:
                stopped()

        self._in_thread(states.close, closed)
