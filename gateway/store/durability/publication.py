"""The steps after a batch was brought to the disk: make it visible, notify listeners, answer senders; or take it back.

The order, batch by batch, on the reactor's thread: consume queues, key index, listeners, senders. With SYNC_FLUSH
nothing is visible before it is on disk, even if its sender was answered earlier.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.in_thread import Failed, InThread
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.durability.dispatch import UnitDispatch
from gateway.store.durability.flushing import Flushing
from gateway.store.durability.group_commit import GroupCommit
from gateway.store.durability.store_files import StoreFiles, StoreState
from gateway.store.errors import NO_SPACE, NOT_OPENED, DiskFull, NoDescriptor
from gateway.store.index.indexing import Indexing
from gateway.store.log.log_batch import LogBatch, Waiter
from gateway.store.put_result import PutOutcome, PutResult, PutStatus, WaitFor
from gateway.telemetry.logs import EventLog

log = EventLog("store")

Listener: TypeAlias = Callable[[list[PutOutcome]], None]


@dataclass(frozen=True, slots=True)
class Derived:
    """The data made from the log for readers: consume queues and key index."""

    dispatch: UnitDispatch
    indexing: Indexing


@dataclass(frozen=True, slots=True)
class SpaceWatch:
    """The functions with which a store notices, and says, that the disk gets full."""

    text: Callable[[], str]
    """The function that returns the free space as text for people."""
    look_soon: Callable[[], None]
    """The function that has the free space checked soon."""
    max_behind_bytes: int
    """The most bytes of messages that may be stored while the files of their queues cannot be written.

    Above this, messages are refused.
    """


class Publication:
    """The observer that ``GroupCommit`` notifies of batches."""

    def __init__(
        self,
        files: StoreFiles,
        state: StoreState,
        derived: Derived,
        flushing: Flushing,
        in_log_thread: InThread,
        space: SpaceWatch,
    ) -> None:
        self._log = files.log
        self._dispatch = derived.dispatch
        self._index = derived.indexing
        self._flushing = flushing
        self._progress = state.progress
        self._admission = state.admission
        self._figures = state.figures
        self._in_log_thread = in_log_thread
        self._numbers = space.text
        self._look = space.look_soon
        self._max_behind_bytes = space.max_behind_bytes
        self._listeners: list[Listener] = []
        self._undispatched: list[LogBatch] = []
        self._idle_callbacks: list[Callable[[], None]] = []
        self._is_adding = False
        """True while those who are told when nothing waits have to wait for messages of ``before_next``."""
        self.group: GroupCommit | None = None
        """The group commit, set once after both objects are made, because each calls the other."""

    def listen(self, listener: Listener) -> None:
        """Notify ``listener`` of every batch that becomes visible, in order."""
        self._listeners.append(listener)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once when no batch waits to be stored and visible, or at once if none waits.

        Messages that somebody will add to the next batch (``GroupCommit.before_next``) are waited for as well.
        """
        self._idle_callbacks.append(callback)
        self._tell_idle()

    def _tell_idle(self) -> None:
        if not self._idle_callbacks or self._is_adding:
            return
        if self._group.has_additions:
            self._is_adding = True
            self._group.before_next(self._added)
        elif self._is_idle:
            waiting, self._idle_callbacks = self._idle_callbacks, []
            for idle in waiting:
                idle()

    def _added(self) -> None:
        self._is_adding = False
        self._tell_idle()

    @property
    def is_complete(self) -> bool:
        """True if everything that is stored is also visible."""
        return not self._undispatched and self._log.visible_end >= self._group.stored_end

    @property
    def _is_idle(self) -> bool:
        """True if nothing waits for the disk or for a stage; a batch whose queues cannot be written may remain."""
        return self._group.is_idle and self._log.visible_end >= self._group.stored_end

    @property
    def refusal(self) -> str | None:
        """The reason to refuse messages until the consume queues can be written; None if there is no reason."""
        if not (self._undispatched or self._progress.write_failed):
            return None
        behind_bytes = self._log.visible_end - self._progress.written_end
        if behind_bytes <= self._max_behind_bytes:
            return None
        return (
            f"the consume queues cannot be written, and {behind_bytes} bytes of messages wait for that, more than "
            "gateway.maxUnwrittenBytes allows; see the broker's log"
        )

    @property
    def _group(self) -> GroupCommit:
        assert self.group is not None, "set when the store is put together"
        return self.group

    # --- stored --------------------------------------------------------------------------------------------------

    def stored(self, batch: LogBatch) -> None:
        """Make a batch visible that is durable enough, then answer its senders."""
        self._flushing.before_visible(batch)
        self._log.visible_end = batch.end
        self._flushing.after_visible(batch)
        self._undispatched.append(batch)
        self.catch_up()
        self._answer(batch)
        self._make_file_ahead()
        if batch.end > self._log.look_end:
            self._look()

    def catch_up(self) -> None:
        """Make stored batches visible, in order; stop at a disk error, so that a later call tries again."""
        progress = self._progress
        while self._undispatched:
            batch = self._undispatched[0]
            try:
                self._dispatch.write(batch.outcomes)
            except OSError as error:
                log.error("consume queues cannot be written", error=str(error), waiting=len(self._undispatched))
                break
            del self._undispatched[0]
            progress.dispatched_end = batch.end
            progress.dispatched_ms = batch.outcomes[-1].stored_at_ms
            count = batch.count
            progress.dispatched_count += count
            self._figures.stored_messages.value += count
            if batch.keyed is None:
                self._index.offer(batch.outcomes)
            else:
                self._index.offer_copied(batch.keyed, batch.end)
            self._tell(batch)
        self._index.build_soon()
        refusal = self.refusal
        if refusal is not None:
            self._admission.refuse(refusal)

    def _tell(self, batch: LogBatch) -> None:
        for listener in self._listeners:
            try:
                listener(batch.outcomes)
            except Exception as error:  # noqa: BLE001 - a failing listener must not keep the senders' answers
                log.error("listener failed", failure=error)

    def _answer(self, batch: LogBatch) -> None:
        for callback, result, _ in batch.waiters:
            try:
                callback(result)
            except Exception as error:  # noqa: BLE001 - one sender's failure must not keep the others' answers
                log.error("callback failed", failure=error)
        self._tell_idle()

    # --- written, not yet on disk --------------------------------------------------------------------------------

    def hasty(self, batch: LogBatch) -> None:
        """Answer the senders that wait only for the write; readers do not see the batch before it is on disk."""
        for waiter in _taken(batch, WaitFor.WRITE):
            _call(waiter)

    def overdue(self, batch: LogBatch) -> None:
        """Answer FLUSH_DISK_TIMEOUT to the senders that asked for it, because a written batch is late on disk."""
        waiters = _taken(batch, WaitFor.DISK_OR_TIMEOUT)
        if not waiters:
            return
        log.warning("sync takes long", messages=batch.count, answered=len(waiters), answer="FLUSH_DISK_TIMEOUT")
        for waiter in waiters:
            told = waiter[1]
            outcomes = [told] if isinstance(told, PutResult) else told
            for outcome in outcomes:
                self._figures.flush_timeouts.value += outcome.count
                outcome.status = PutStatus.FLUSH_DISK_TIMEOUT
            _call(waiter)
            for outcome in outcomes:
                outcome.status = PutStatus.PUT_OK  # for the listeners, which are notified when the batch is on disk

    # --- refused -------------------------------------------------------------------------------------------------

    def failed(self, batch: LogBatch, reason: BaseException) -> None:
        """Refuse a batch that did not reach the disk, and everything that was gathered after it."""
        if isinstance(reason, DiskFull):
            log.error("disk full", error=str(reason), messages=batch.count)
            self._admission.refuse(f"disk full: {reason}; {self._numbers()}")
            status = PutStatus.SERVICE_NOT_AVAILABLE
        elif isinstance(reason, NoDescriptor):  # the next batch succeeds once a descriptor is free
            log.error("no file can be opened, messages are refused", error=str(reason), messages=batch.count)
            status = PutStatus.SERVICE_NOT_AVAILABLE
        else:
            self._admission.fail(reason)
            status = PutStatus.UNKNOWN_ERROR
        self._log.move_to(batch.start)
        gathered = self._group.restart()
        for outcome in [*batch.outcomes, *gathered.outcomes]:
            queue = outcome.queue
            if queue is not None and outcome.queue_offset < queue.next_offset:
                queue.next_offset = outcome.queue_offset
            for light, offset in outcome.further:
                light.next_offset = min(light.next_offset, offset)
        for refused, what in ((batch, status), (gathered, PutStatus.SERVICE_NOT_AVAILABLE)):
            self._figures.refused_messages.value += refused.count
            for outcome in refused.outcomes:
                outcome.status = what
                outcome.queue_offset = outcome.commit_log_offset = -1
            self._answer(refused)

    # --- the next file -------------------------------------------------------------------------------------------

    def _make_file_ahead(self) -> None:
        """Make the next log file early, in the thread.

        Then no batch waits for a new file, and with ASYNC_FLUSH no reactor does.
        """
        file = self._log.file_ahead()
        if file is not None:
            self._in_log_thread(lambda: file.open(create=True), lambda result: self._made_ahead(file, result))

    def _made_ahead(self, file: MappedFile, result: object) -> None:
        if not isinstance(result, Failed):
            self._look()  # without holes the new file has taken disk space
            return
        error = result.error
        if isinstance(error, OSError) and (error.errno in NO_SPACE or error.errno in NOT_OPENED):
            self._log.forget_ahead(file)
        else:
            self._admission.fail(f"{file.path} could not be made: {error}")


def _taken(batch: LogBatch, wait_for: WaitFor) -> list[Waiter]:
    """Take the waiters of one kind out of a batch and return them, so that they are answered only once."""
    taken = [waiter for waiter in batch.waiters if waiter[2] is wait_for]
    if taken:
        batch.waiters = [waiter for waiter in batch.waiters if waiter[2] is not wait_for]
    return taken


def _call(waiter: Waiter) -> None:
    try:
        waiter[0](waiter[1])
    except Exception as error:  # noqa: BLE001 - one sender's failure must not keep the others' answers
        log.error("callback failed", failure=error)
