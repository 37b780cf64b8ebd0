"""``transactionStateStore = database``: pending half messages as rows, after the 4.0 design.

    t_transaction             offset (primary key) · producerGroup · commitLogOffset · size · storeTimestamp
    t_transaction_progress    one row: owner · sequence · position · first · halfEnd

``sequence`` grows with every change. A database that returns with another sequence than expected gets everything again:
a copy was restored, or another database answers under the same name.

``owner`` is the identity of the store directory, a dot, and a token of this one use of this database. Rows of another
directory are never touched. Rows with another token are not believed: a copy of the directory wrote them, or a move
left them.

The SQL here works with both SQLite and PostgreSQL. Connecting is in ``sqlite`` and ``postgresql``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import Any, Protocol

from gateway.errors import GatewayError
from gateway.metadata.names import MAX_GROUP_CHARACTERS
from gateway.telemetry.logs import EventLog
from gateway.transaction.state_stores.changes import (
    Changes,
    Known,
    Prepared,
    StatesLost,
    StatesUnavailable,
)
from gateway.transaction.state_stores.remembered import NO_TOKEN
from gateway.transaction.states import State

log = EventLog("transaction")

# In databases: never change.
ROWS_TABLE = """\
CREATE TABLE IF NOT EXISTS t_transaction (
    "offset" BIGINT PRIMARY KEY, "producerGroup" VARCHAR(255) NOT NULL, "commitLogOffset" BIGINT NOT NULL,
    "size" INTEGER NOT NULL, "storeTimestamp" BIGINT NOT NULL)"""
PROGRESS_TABLE = """\
CREATE TABLE IF NOT EXISTS t_transaction_progress (
    owner VARCHAR(64) PRIMARY KEY, sequence BIGINT NOT NULL, position BIGINT NOT NULL, "first" BIGINT NOT NULL,
    "halfEnd" BIGINT NOT NULL)"""
FETCH_ROWS = 10_000
NEW = -1
"""The sequence of a database that has no row of this directory."""


class SqlTransaction(Protocol):
    """One transaction of a database. ``?`` marks a parameter with SQLite and with PostgreSQL."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement."""

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for many rows."""

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, which are fetched in parts."""


class Database(Protocol):
    """The database with the rows."""

    @property
    def name(self) -> str:
        """The name of the database in error texts, without a password."""

    def transaction(self) -> AbstractContextManager[SqlTransaction]:
        """Open a transaction. Leaving it makes its changes durable; an exception inside undoes them.

        :raises StatesUnavailable: there is no connection, or the connection was lost during the transaction.
        """

    def close(self) -> None:
        """Close the connections."""


class ForeignDatabase(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """The database holds the pending transactions of another store directory."""

    def __init__(self, name: str, owner: str, ours: str) -> None:
        super().__init__(
            f"{name} holds the transactions of another store directory ({owner}, this one is {ours}): "
            "give each broker a database or a schema of its own (gateway.transactionDatabase), or drop the tables "
            "t_transaction and t_transaction_progress if that directory is gone"
        )


class OtherDatabase(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """The named database lacks the rows that the directory uses, and must not be filled with them."""


class DatabaseStates:
    """The pending half messages of one store directory in a database.

    :param identity: the identity of the store directory.
    :param tokens: the tokens by which the database is known; it gets the first token (see ``Remembered``).
    :param elsewhere: why a database without a known token must not be used; None if it may be used.
    """

    def __init__(
        self, database: Database, identity: str, tokens: Sequence[str] = (NO_TOKEN,), elsewhere: str | None = None
    ) -> None:
        self._database = database
        self._identity = identity
        self._owners = tuple(_owner(identity, token) for token in tokens)
        self._elsewhere = elsewhere
        self.token: str | None = None
        """The token that ``load`` found; None without a token. ``is_reached`` says whether the database was read."""
        self.is_reached = False
        self._sequence: int | None = None
        """The database's sequence number after the last change that is known to be made; None if it is not known."""
        self._tried: int | None = None
        """The sequence number that the database has if the last change was made although the answer was lost."""

    keeps_settled = False

    # -- TransactionStates ----------------------------------------------------------------------------------

    def load(self, first: int, end: int, log_end: int) -> Known:
        """Implement ``TransactionStates.load``. A database that cannot be reached counts as knowing nothing for now."""
        try:
            with self._database.transaction() as sql:
                progress = self._progress(sql)
                self.is_reached = True
                if progress is None or progress[0] not in self._owners:
                    self._check_place()
                    if progress is not None:
                        log.error("transaction database was used by a copy of the directory; the log is read instead")
                    return Known()
                owner, sequence, position, settled_below, half_end = progress
                self._elsewhere = None  # this is the same database under another name
                self.token = owner.removeprefix(self._identity).removeprefix(".")
                if position > log_end or half_end > end:
                    log.error("transaction database is ahead of the log; told everything again", position=position)
                    return Known()
                ordered = 'SELECT "offset" FROM t_transaction ORDER BY "offset"'
                pending = array("q", (offset for (offset,) in sql.rows(ordered)))
        except StatesUnavailable as error:
            log.error("transaction database not reachable at start; the log is read instead", reason=str(error))
            return Known()
        self._sequence = sequence
        first = max(first, settled_below)
        return Known(position, first, _absent(first, half_end, pending))

    def is_ours(self) -> bool:
        """Return whether the rows are those that the directory uses, whatever the name of the database.

        :raises StatesUnavailable: the database cannot be read now.
        :raises ForeignDatabase: the rows belong to another directory.
        """
        with self._database.transaction() as sql:
            progress = self._progress(sql)
        return progress is not None and progress[0] in self._owners

    def check_free(self) -> None:
        """Check that no other directory uses the rows of this database.

        :raises StatesUnavailable: the database cannot be read now.
        :raises ForeignDatabase: another directory uses the rows.
        :raises OtherDatabase: a copy of the directory may use the rows.
        """
        with self._database.transaction() as sql:
            progress = self._progress(sql)
        if progress is not None and progress[0] not in self._owners:
            raise OtherDatabase(
                f"{self._database.name} has transactions of a copy of this directory, or what an earlier move left: "
                "give the copy a database or a schema of its own, or drop t_transaction and t_transaction_progress"
            )

    def claim(self, tokens: Sequence[str]) -> None:
        """Use these tokens from now on. The database gets the first token with the next changes."""
        self._owners = tuple(_owner(self._identity, token) for token in tokens)

    def found(self, prepared: Prepared) -> None:
        """Implement ``TransactionStates.found``: do nothing, because a row has all facts already."""

    def begin(self, first: int, position: int) -> None:
        """Implement ``TransactionStates.begin``."""
        whole = Changes(position=position, first=first, half_end=first, is_whole=True)
        self.apply(whole)

    def apply(self, changes: Changes) -> None:
        """Implement ``TransactionStates.apply``."""
        with self._database.transaction() as sql:
            found = self._progress(sql)
            owner, sequence = ("", NEW) if found is None else found[:2]
            if owner not in self._owners:
                self._check_place()
            if not changes.is_whole:
                is_known = owner in self._owners and sequence in (self._sequence, self._tried)
                if self._sequence is None or not is_known:
                    raise StatesLost(f"{self._database.name} has other transactions than it was told")
            else:
                sql.execute("DELETE FROM t_transaction")
            self._write(sql, changes)
            self._write_progress(sql, found is None, sequence + 1, changes)
            self._tried = sequence + 1
        self._sequence = self._tried

    def close(self) -> None:
        """Implement ``TransactionStates.close``."""
        self._database.close()

    # -- inside ---------------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        """Check whether this database, which has no known token, may be used all the same.

        :raises OtherDatabase: another database has the rows that the directory uses.
        """
        if self._elsewhere is not None:
            raise OtherDatabase(self._elsewhere)

    def _progress(self, sql: SqlTransaction) -> tuple[str, int, int, int, int] | None:
        """Return owner, sequence, position, first and end of the half messages; None in a new database.

        :raises ForeignDatabase: the database belongs to another directory.
        """
        sql.execute(ROWS_TABLE)
        sql.execute(PROGRESS_TABLE)
        query = 'SELECT owner, sequence, position, "first", "halfEnd" FROM t_transaction_progress'
        for owner, *values in list(sql.rows(query)):
            if owner.partition(".")[0] != self._identity:
                raise ForeignDatabase(self._database.name, owner, self._identity)
            sequence, position, first, half_end = map(int, values)
            return owner, sequence, position, first, half_end
        return None

    def _write(self, sql: SqlTransaction, changes: Changes) -> None:
        settled = {half.offset for half in changes.settled}
        rows = [
            (half.offset, _column(half.group), half.place, half.size, half.stored_at_ms)
            for half in changes.prepared
            if half.offset not in settled
        ]
        added = {half.offset for half in changes.prepared}
        removed = [(offset,) for offset in settled if offset not in added]
        # After a lost answer the same changes may come again; then delete the rows of all settled half messages.
        if self._tried != self._sequence:
            removed = [(offset,) for offset in settled]
        if removed:
            sql.execute_many('DELETE FROM t_transaction WHERE "offset" = ?', removed)
        if rows:
            sql.execute_many("INSERT INTO t_transaction VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def _write_progress(self, sql: SqlTransaction, is_new: bool, sequence: int, changes: Changes) -> None:
        values = sequence, changes.position, changes.first, changes.half_end, self._owners[0]
        if is_new:
            statement = (
                'INSERT INTO t_transaction_progress (sequence, position, "first", "halfEnd", owner) '
                "VALUES (?, ?, ?, ?, ?)"
            )
        else:
            statement = (
                'UPDATE t_transaction_progress SET sequence = ?, position = ?, "first" = ?, "halfEnd" = ?, owner = ?'
            )
        sql.execute(statement, values)


def _column(group: str) -> str:
    """Return a group in a form that every database takes.

    A group in a directory from elsewhere may have any length and any character.
    """
    text = group.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text[:MAX_GROUP_CHARACTERS].encode("utf-8", "replace").decode()


def _owner(identity: str, token: str) -> str:
    """Return the owner as the database stores it."""
    return f"{identity}.{token}" if token else identity


def _absent(first: int, end: int, pending: array[int]) -> Iterator[tuple[int, State]]:
    """Yield the half messages without a row, as SETTLED. Only the log knows how each was settled."""
    offset = first
    for there in chain(islice(pending, bisect_left(pending, first), None), (end,)):
        for absent in range(offset, min(there, end)):
            yield absent, State.SETTLED
        offset = there + 1
