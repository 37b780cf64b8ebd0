"""Transactions as the broker sees them: one object that is notified of half messages and holds the other parts.

``settling`` takes outcomes, and ``checks`` takes the answers of producers. ``interventions`` and ``overview`` are for
people. ``tables`` is what memory knows.

Order of calls: ``rebuild`` after the store is open and before anything is served, ``start`` when the reactor runs.
``stop`` comes before the store closes, and before the consumer offsets are written for the last time.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred

from gateway.clock import END_OF_TIME_MS
from gateway.errors import RequestRefused
from gateway.metadata.names import HALF_TOPIC
from gateway.settings.transaction import TransactionStateStore
from gateway.store.put_result import PutOutcome, each_result
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.checks.check_service import CheckService
from gateway.transaction.checks.verdict import immunity_ms
from gateway.transaction.needs import LogAccess, TransactionNeeds
from gateway.transaction.operators.interventions import Interventions
from gateway.transaction.operators.overview import Overview
from gateway.transaction.records.half_messages import half_of
from gateway.transaction.restart.progress import OutcomeProgress
from gateway.transaction.restart.rebuild import LogFindings
from gateway.transaction.restart.searched import SearchedLog
from gateway.transaction.restart.start import TransactionStart
from gateway.transaction.settling import Settling
from gateway.transaction.state_stores.changes import Prepared
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.state_stores.follower import StateFollower
from gateway.transaction.state_stores.outcome_records import Evidence
from gateway.transaction.states import State
from gateway.transaction.tables.transaction_tables import TransactionTables
from wire.codes import ResponseCode
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage

# Every transaction needs these, and to look up an attribute of an enumeration takes as long as a call.
_PENDING: Final = State.PENDING


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
        self.counts = tables.counts
        self.pending = tables.pending
        self._store = store
        self._needs = needs
        self._clock_ms = needs.clock_ms
        self._journal = journal
        self._choice = choice
        self._unrecorded: list[tuple[int, State]] = []
        self._searched: SearchedLog | None = None
        self._follower: StateFollower | None = None
        if choice is not None and choice.wanted is not TransactionStateStore.QUEUE:
            self._follower = StateFollower(tables, store, needs, choice.limit)
        evidence = None if self._follower is None else Evidence(self._follower, tables.pending.place)
        self.settling = Settling(tables, store, needs, evidence)
        self.checks = CheckService(tables, store, self.settling, journal, needs)
        self.interventions = Interventions(tables, store, self.settling, self.checks, needs)
        self.overview = Overview(tables, store, needs, self.interventions)
        self._progress = OutcomeProgress(tables, store, self.settling, journal, needs)
        tables.counts.watch(
            lambda: tables.oldest_age_ms(self._clock_ms()) / 1_000,
            lambda: tables.turns.in_flight,
            lambda: 0 if self._follower is None else self._follower.waiting,
        )

    # -- life -----------------------------------------------------------------------------------------------

    def rebuild(self, *, takes_over: bool = False) -> LogFindings:
        """Find what is pending and what was decided; blocks.

        :param takes_over: whether the log was copied or cut, so that state stores are not asked, but told everything.
        :raises OSError: the check journal, or a state table, cannot be used.
        :raises GatewayError: the directory keeps its pending transactions in another state store than the wanted one.
        """
        start = TransactionStart(self.tables, self._store, self._journal, self._needs, self._choice)
        found = start.run(takes_over=takes_over)
        self._unrecorded = found.unrecorded
        if self._choice is not None and start.searched is not None:
            self._searched = SearchedLog(self._choice.remembered, start.searched, self._needs.in_thread)
            self._progress.when_recorded = self._searched.end
        if self._follower is not None and start.states is not None and takes_over:
            self._follower.begin_anew(start.states)
        elif self._follower is not None and start.states is not None:
            self._follower.begin(start.states, found.prepared, found.settled)
        return found

    def check_database(self) -> None:
        """Check that this directory may use its database of pending transactions, as ``StateChoice.check_database``."""
        if self._choice is not None:
            self._choice.check_database()

    def start(self) -> None:
        """Write the op records that are missing after a crash, and start to check."""
        self.settling.record(self._unrecorded, self._needs.host)
        self._unrecorded = []
        if self._follower is not None:
            self._follower.start()
        self._progress.start()
        self.checks.start()

    def stop(self) -> Deferred[None]:
        """Stop the checks. The result fires when no outcome is on its way to the log and the progress is written."""
        self.checks.stop()
        stopped: Deferred[None] = Deferred()
        self.settling.when_idle(partial(self._finish, stopped))
        return stopped

    def _finish(self, stopped: Deferred[None]) -> None:
        self._progress.stop()
        self._journal.close()
        if self._searched is not None:
            self._searched.when_idle(lambda: stopped.callback(None))
        elif self._follower is not None:
            self._follower.stop(lambda: stopped.callback(None))
        else:
            stopped.callback(None)

    # -- half messages --------------------------------------------------------------------------------------

    def half_of(self, message: OutgoingMessage) -> OutgoingMessage:
        """Make the half message that is stored instead of a transactional message.

        :raises RequestRefused: SERVICE_NOT_AVAILABLE, because too many half messages wait for a failing state store;
            SYSTEM_BUSY, because too many producer groups have half messages without an outcome.
        """
        if self._follower is not None and (reason := self._follower.refusal) is not None:
            raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, reason)
        group, log = message.property_map.get(PropertyName.PGROUP, ""), self._store
        reason = self.tables.turns.admit(
            group, message.born_host, self._clock_ms(), log.max_commit_log_offset, log.stored_end
        )
        if reason is not None:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, reason)
        return half_of(message)

    @property
    def follows_all(self) -> bool:
        """True if ``half_stored`` must be called for every batch, even for a batch without half messages."""
        return self._follower is not None

    def half_stored(self, outcomes: Sequence[PutOutcome]) -> None:
        """Take in the half messages among the outcomes that became visible. Each is pending from now on."""
        tables = self.tables
        pending, turns, settings = tables.pending, tables.turns, tables.settings
        now_ms = self._clock_ms()
        first_due_ms = END_OF_TIME_MS
        for outcome in outcomes:
            if outcome.topic != HALF_TOPIC:
                continue
            for stored in outcome.each():
                offset = stored.queue_offset
                properties = stored.message.property_map
                immunity = properties.get(PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS)
                due_at_ms = now_ms + immunity_ms(immunity, settings)
                group = turns.join(properties.get(PropertyName.PGROUP, ""))
                topic = tables.joined_topic(properties.get(PropertyName.REAL_TOPIC, ""))
                pending.add(offset, (stored.commit_log_offset, stored.size), now_ms, due_at_ms, group, topic)
                tables.outcomes.put(offset, _PENDING)
                tables.recent.keep(stored)
                tables.due_times.add(offset, due_at_ms)
                if due_at_ms < first_due_ms:
                    first_due_ms = due_at_ms
        if first_due_ms < END_OF_TIME_MS:
            self.checks.due(first_due_ms)
            tables.counts.half_messages.value = pending.count
        if self._follower is not None:
            self._follow(self._follower, outcomes)

    def _follow(self, follower: StateFollower, outcomes: Sequence[PutOutcome]) -> None:
        """Notify the state store of the half messages among the outcomes that became visible."""
        now_ms = self._clock_ms()
        for stored in each_result(outcomes):
            if stored.topic == HALF_TOPIC:
                group = stored.message.property_map.get(PropertyName.PGROUP, "")
                place = stored.commit_log_offset
                follower.prepared(Prepared(stored.queue_offset, place, stored.size, now_ms, group))
        if outcomes:
            follower.visible(outcomes[-1].commit_log_offset + outcomes[-1].size)
