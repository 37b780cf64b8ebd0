"""Move the pending transactions of a directory, which nobody serves, from one state store to another.

Half messages keep the places that their producers know. Only the notes that say "pending" move. The file
``state-store`` is replaced last: a move that is cut short leaves the directory as it was, and may be repeated. A move
to ``queue`` appends the op records that were never written, so that Apache RocketMQ can take over as well.

The content of the old state store is not believed afterwards. A state store inside the directory is emptied. A database
outside keeps its rows, because the directory may be a copy of another directory that uses the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from gateway.clock import Milliseconds
from gateway.errors import GatewayError
from gateway.metadata.names import HALF_TOPIC
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.topics import NO_TOPICS
from gateway.settings.transaction import TransactionStateStore
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.limits import DEFAULT_LIMITS
from gateway.transaction.records.half_messages import HALF_QUEUE_ID
from gateway.transaction.records.op_messages import MAX_ENTRIES, build_op, entry_bytes
from gateway.transaction.restart.rebuild import OFFSETS_GROUP, LogFindings, OpenHalf, Rebuild, StartSources
from gateway.transaction.state_stores.changes import Changes, Prepared, StatesUnavailable, TransactionStates
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.state_stores.remembered import Remembered
from gateway.transaction.states import OPEN_STATES, State
from gateway.transaction.tables.op_positions import OpPositions
from gateway.transaction.tables.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of a move.

    :param has: the state store that has the pending transactions.
    :param groups: how many pending transactions each producer group has.
    :param oldest_ms: the store time of the oldest pending transaction; None without one.
    :param is_done: True if the pending transactions are already in the wanted state store.
    """

    has: TransactionStateStore
    wanted: TransactionStateStore
    groups: dict[str, int]
    oldest_ms: int | None
    is_done: bool
    left: str | None = None
    """The database outside the directory that keeps its rows; None if there is none."""

    @property
    def count(self) -> int:
        """The number of pending transactions."""
        return sum(self.groups.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDirectory:
    """A directory that nobody serves, opened for a move."""

    store: MessageStore
    offsets: ConsumerOffsets
    """The consumer offsets, already loaded."""
    journal: CheckJournal
    """The check journal, already loaded."""
    host: bytes
    """The broker's packed address, for op records."""


class Migration:
    """One move. ``plan`` finds what would move, and ``run`` moves it.

    :param source: makes the directory's present state store.
    :param target: makes the wanted state store.
    """

    def __init__(
        self,
        source: StateChoice,
        target: StateChoice,
        directory: OpenDirectory,
        op_bytes: int,
        clock_ms: Milliseconds,
    ) -> None:
        self._source = source
        self._target = target
        self._store = directory.store
        self._offsets = directory.offsets
        self._journal = directory.journal
        self._host = directory.host
        self._op_bytes = op_bytes
        self._clock_ms = clock_ms
        self._pending: dict[int, Prepared] = {}
        self._outcomes = Outcomes(DEFAULT_LIMITS.remembered_outcomes)
        self._found = LogFindings()
        self._states: TransactionStates | None = None
        self._remembered = Remembered()

    def plan(self) -> Plan:
        """Find what is pending; blocks.

        :raises GatewayError: the directory's state store cannot be read.
        :raises OSError: files of the directory cannot be read.
        """
        source = self._source
        self._remembered = remembered = source.remembered.load()
        is_done = self._is_there(remembered)
        # If the wanted store has the data already, look there, whatever the settings say.
        self._states = (self._target if is_done else source).make(remembered.store, remembered)
        sources = StartSources(
            store=self._store,
            offsets=self._offsets,
            topics=NO_TOPICS,
            mark=self._journal.mark,
            first=remembered.first,
            states=self._states,
            takes_over=remembered.is_searched,
        )
        self._found = Rebuild(sources, self._outcomes, OpPositions(), self).run()
        groups: dict[str, int] = {}
        for half in self._pending.values():
            groups[half.group] = groups.get(half.group, 0) + 1
        return Plan(
            has=remembered.store,
            wanted=self._target.wanted,
            groups=groups,
            oldest_ms=min((half.stored_at_ms for half in self._pending.values()), default=None),
            is_done=is_done,
            left=None if is_done or not self._is_outside else source.database,
        )

    @property
    def _is_outside(self) -> bool:
        """True if the present state store is a database that a copy of the directory may use as well."""
        return self._remembered.store is TransactionStateStore.DATABASE and not self._source.has_own_database

    def _is_there(self, remembered: Remembered) -> bool:
        """Return whether the wanted state store is the present one. Databases are compared by their content."""
        target, wanted = self._target, self._target.wanted
        is_same = remembered.store is wanted
        if wanted is not TransactionStateStore.DATABASE or (not is_same and target.has_own_database):
            return is_same
        states = target.make_rows(remembered)
        try:
            if is_same and states.is_ours():
                return True
            if not target.has_own_database:
                states.check_free()
            return False
        except StatesUnavailable:
            if is_same and target.database == remembered.database:
                return True  # the names agree, and nothing more is known
            raise
        finally:
            states.close()

    def run(self) -> int:
        """Carry out what ``plan`` found; return how many op records were written. Blocks.

        :raises GatewayError: the wanted state store cannot be reached, or the store refuses op records.
        :raises OSError: a file cannot be written.
        """
        found, target = self._found, self._target
        base = min(self._pending, default=found.half_end)
        log_end = self._store.max_commit_log_offset
        records = 0
        moved = target.began(self._remembered, base)
        tokens = dict.fromkeys((*self._remembered.tokens, *moved.tokens))
        # Saved before a database gets the tokens: a repeated move must recognize rows of an interrupted move.
        target.remembered.save(replace(self._remembered, tokens=tuple(tokens)))
        states = target.make(target.wanted, moved)
        if states is None:
            records = self._write_ops(base, found.half_end)
        else:
            whole = Changes(position=log_end, first=base, half_end=found.half_end, log_end=log_end, is_whole=True)
            whole.prepared = [self._pending[offset] for offset in sorted(self._pending)]
            try:
                states.apply(whole)
            finally:
                states.close()
        # Apache RocketMQ reads this offset, and none of the gateway's own files.
        self._offsets.keep(OFFSETS_GROUP, HALF_TOPIC, HALF_QUEUE_ID, base)
        self._offsets.persist_now()
        target.remembered.save(moved)
        if self._states is not None and not self._is_outside:
            with suppress(StatesUnavailable):
                self._states.begin(self._remembered.first, 0)  # a later user of the old store has to read the log
        return records

    def close(self) -> None:
        """Close the present state store."""
        if self._states is not None:
            self._states.close()
            self._states = None

    # -- what a look finds ----------------------------------------------------------------------------------

    def opened(self, half: OpenHalf) -> None:
        """Keep an open half message."""
        self._pending[half.offset] = Prepared(half.offset, half.log_offset, half.size, half.stored_at_ms, half.group)

    def closed(self, offset: int, state: State) -> None:
        """Forget a half message that is settled after all."""
        self._pending.pop(offset, None)
        self._outcomes.put(offset, state)

    # -- inside ---------------------------------------------------------------------------------------------

    def _write_ops(self, base: int, end: int) -> int:
        """Append op records for every half message that is settled, and return their number when they are durable.

        :raises GatewayError: an op record could not be stored, or did not reach the disk.
        """
        count = 0
        for settled in cut(self._settled(base, end), self._op_bytes):
            results: list[PutResult] = []
            message = build_op(settled, host=self._host, now_ms=self._clock_ms())
            self._store.append(message, results.append)
            if not results or not results[0].status.is_stored:
                status = results[0].status.name if results else "no answer"
                raise GatewayError(f"an op record could not be stored: {status}; nothing was moved")
            count += 1
        if not self._store.flush():
            raise GatewayError("the op records did not reach the disk; nothing was moved")
        return count

    def _settled(self, base: int, end: int) -> Iterator[tuple[int, State]]:
        for offset in range(base, end):
            if offset not in self._pending:
                state = self._outcomes.state(offset)
                yield offset, State.SETTLED if state in OPEN_STATES or state is State.NONE else state


def cut(settled: Iterable[tuple[int, State]], op_bytes: int) -> Iterator[list[tuple[int, State]]]:
    """Yield parts of the settled half messages, each small enough for one op record with a body of ``op_bytes``."""
    part: list[tuple[int, State]] = []
    size = 0
    for offset, state in settled:
        entry = entry_bytes(offset)
        if part and (size + entry > op_bytes or len(part) == MAX_ENTRIES):
            yield part
            part, size = [], 0
        part.append((offset, state))
        size += entry
    if part:
        yield part
