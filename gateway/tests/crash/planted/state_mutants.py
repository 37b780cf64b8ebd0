"""Planted bugs in the state stores of transactions, as those of ``mutants``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.tests.crash.disk.recording import Kind
from gateway.tests.crash.planted.mutants import Mutant, Patch, without
from gateway.transaction.state_stores.follower import StateFollower
from gateway.transaction.state_stores.remembered import RememberedStore
from gateway.transaction.state_stores.table import TableStates


def position_ahead_of_what_was_told(patch: Patch) -> None:
    """A state store believes to know what is only on its way to the log."""
    honest = StateFollower._close_batch

    def ahead(self: StateFollower) -> None:
        self._visible = self._store.max_commit_log_offset
        honest(self)

    patch(StateFollower, "_close_batch", ahead)


def table_believed_after_a_kill(patch: Patch) -> None:
    """The state table is read as it lies there, although nobody closed it."""
    patch(TableStates, "_rebuild", lambda self, first: None)


def redo_log_begins_elsewhere(patch: Patch) -> None:
    """The mark names another half message than the one that the redo log begins with."""
    honest = TableStates._first_needed

    def later(self: TableStates, first: int) -> tuple[int, int]:
        half_first, redo_first = honest(self, first)
        return half_first + 1, redo_first

    patch(TableStates, "_first_needed", later)


def takeover_forgotten(patch: Patch) -> None:
    """A start does not know that op records of a takeover are missing."""
    honest = RememberedStore.load
    patch(RememberedStore, "load", lambda self: replace(honest(self), is_searched=False))


IMAGES = 400
"""Of each exploration, spread over all lives: the ordinary test run shall not wait long."""

STATE_MUTANTS: Mapping[str, Mutant] = {
    "position ahead of what was told": Mutant(position_ahead_of_what_was_told, "transaction-database", 500),
    "table believed after a kill": Mutant(table_believed_after_a_kill, "transaction-table-async", 500),
    "redo log begins elsewhere": Mutant(redo_log_begins_elsewhere, "transaction-table", 300, seed=3),
    "redo log not synced": Mutant(without(Kind.SYNC, "/redolog/"), "transaction-table", 500, seed=2),
    "closed table not synced": Mutant(without(Kind.SYNC, "/statetable/"), "transaction-table", 500, seed=2),
    "op records of a takeover forgotten": Mutant(takeover_forgotten, "transaction-taken-async", 400, seed=3),
    "name of the store not synced": Mutant(without(Kind.SYNC, "/state-store"), "transaction-table", 100),
}
