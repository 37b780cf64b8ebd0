"""The start of transactions: fill the tables from the log, the check journal and the state store."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from gateway.telemetry.logs import EventLog
from gateway.transaction.checks.check_journal import Check, CheckJournal
from gateway.transaction.checks.verdict import immunity_ms
from gateway.transaction.needs import LogAccess, TransactionNeeds
from gateway.transaction.restart.rebuild import LogFindings, OpenHalf, Rebuild, StartSources, journal_check
from gateway.transaction.state_stores.changes import TransactionStates
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.state_stores.remembered import Remembered
from gateway.transaction.states import State
from gateway.transaction.tables.transaction_tables import TransactionTables

log = EventLog("transaction")

OPENED_TOGETHER = 4_096


class TransactionStart:
    """One start, carried out by ``run``.

    :param choice: where pending half messages are kept; None: in op records, whatever the directory says.
    """

    def __init__(
        self,
        tables: TransactionTables,
        store: LogAccess,
        journal: CheckJournal,
        needs: TransactionNeeds,
        choice: StateChoice | None,
    ) -> None:
        self._tables = tables
        self._store = store
        self._journal = journal
        self._needs = needs
        self._choice = choice
        self._checks: Mapping[int, Check] = {}
        self._now_ms = 0
        self._opening: list[OpenHalf] = []
        self.states: TransactionStates | None = None
        """The state store to use after ``run``; None if there are only op records."""
        self.searched: Remembered | None = None
        """The content of the file ``state-store`` while op records may be missing; None if none are."""

    def run(self, *, takes_over: bool = False) -> LogFindings:
        """Find what is pending and what was decided; blocks.

        :param takes_over: whether the log was copied or cut, so that it decides alone.
        :raises OSError: the check journal, or a state table, cannot be used.
        :raises GatewayError: the directory keeps its pending transactions in another state store than the wanted one.
        """
        tables = self._tables
        self._now_ms = self._needs.clock_ms()
        self._checks = self._journal.load()
        found = self._find_alone(self._choice) if takes_over and self._choice is not None else self._find()
        tables.ops.end = max(tables.ops.end, found.op_end)
        tables.copies.update(found.copies)
        tables.outcomes.seal()
        tables.counts.half_messages.value = tables.pending.count
        log.info(
            "transactions found",
            pending=tables.pending.count,
            groups=tables.turns.group_count,
            half_messages_read=found.half_count,
            op_records_added=len(found.unrecorded),
            took_ms=self._needs.clock_ms() - self._now_ms,
        )
        return found

    def _find(self) -> LogFindings:
        """Read the state store that the directory has, and go on with the wanted state store."""
        choice = self._choice
        remembered = Remembered() if choice is None else choice.remembered.load()
        states = None if choice is None else choice.make(remembered.store, remembered)
        sources = StartSources(
            store=self._store,
            offsets=self._needs.offsets,
            topics=self._needs.topics,
            mark=self._journal.mark,
            first=remembered.first,
            states=states,
            takes_over=remembered.is_searched,
        )
        try:
            found = self._read(sources)
            if choice is not None and choice.wanted is not remembered.store:
                states = choice.switch(remembered, states, self._store, self._tables.pending)
                found.unrecorded, found.prepared, found.settled = [], [], []
            elif choice is not None:
                choice.claim(remembered, states)
                self.searched = remembered if remembered.is_searched else None
        except BaseException:
            if states is not None:
                states.close()
            raise
        self.states = states
        return found

    def _find_alone(self, choice: StateChoice) -> LogFindings:
        """Read the log alone, whatever state store the directory has, and go on with the wanted state store.

        The caller tells the state store everything. Op records that are missing are remembered to be missing, because
        the next start does not take over.
        """
        self._journal.forget_mark()
        has = choice.remembered.load()
        fresh = choice.began(has, 0)
        states = choice.make(choice.wanted, fresh)
        sources = StartSources(
            store=self._store,
            offsets=self._needs.offsets,
            topics=self._needs.topics,
            states=states,
            takes_over=True,
        )
        try:
            found = self._read(sources)
            if states is None and found.unrecorded:
                self.searched = fresh = replace(fresh, is_searched=True)
            if fresh != has:
                choice.remembered.save(fresh)  # before a database gets the identity or the token
        except BaseException:
            if states is not None:
                states.close()
            raise
        self.states = states
        return found

    def _read(self, sources: StartSources) -> LogFindings:
        found = Rebuild(sources, self._tables.outcomes, self._tables.ops, self).run()
        self._open_found()
        self._tables.pending.reach(found.half_end)
        return found

    def opened(self, half: OpenHalf) -> None:
        """Keep an open half message for the tables."""
        self._opening.append(half)
        if len(self._opening) >= OPENED_TOGETHER:
            self._open_found()

    def _open_found(self) -> None:
        """Take in the open half messages that were found, many at once, because a start may find a million."""
        tables = self._tables
        found, self._opening = self._opening, []
        journal, settings, now_ms = self._checks, tables.settings, self._now_ms
        add_due = tables.due_times.add
        counts = Counter([half.group for half in found])
        groups = {name: tables.turns.join_many(name, count) for name, count in counts.items()}
        counts = Counter([half.topic for half in found])
        topics = {name: tables.joined_topic(name, count) for name, count in counts.items()}
        for half in found:
            offset, stored_at_ms, checks = half.offset, half.stored_at_ms, half.checks
            if stored_at_ms > now_ms:
                stored_at_ms = now_ms
            due_at_ms = stored_at_ms + immunity_ms(half.immunity, settings)
            known = journal_check(journal.get(offset), half) if journal else None
            if known is not None:
                due_at_ms, checks = min(known[0], now_ms + settings.transaction_check_interval_ms), known[1]
            place, group, topic = (half.log_offset, half.size), groups[half.group], topics[half.topic]
            tables.pending.add(offset, place, stored_at_ms, due_at_ms, group, topic)
            if checks:
                tables.pending.schedule(offset, due_at_ms, checks)
            add_due(offset, due_at_ms)
        tables.outcomes.put_pending([half.offset for half in found])

    def closed(self, offset: int, state: State) -> None:
        """Remove from the tables an open half message that is settled after all."""
        self._open_found()
        tables = self._tables
        group = tables.pending.group(offset)
        tables.counts.by_topic[tables.pending.topic(offset)].half_messages.value -= 1
        tables.pending.remove(offset)
        tables.turns.leave(group, offset)
        tables.outcomes.put(offset, state)
