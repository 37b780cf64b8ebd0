"""SQLite: a file in the store's directory, or wherever ``gateway.transactionDatabase`` says. Nothing to install.

A write-ahead log, and every transaction is on disk before it counts (``synchronous = FULL``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gateway.transaction.state_stores.changes import StatesUnavailable
from gateway.transaction.state_stores.database import FETCH_ROWS

FILE_NAME = "transactions.db"
BUSY_TIMEOUT_S = 5.0
"""Somebody else may look at the file; what takes longer counts as unavailable."""
DAMAGED = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT"})
"""What SQLite calls a file whose content makes no sense."""


class SqliteDatabase:
    """One file. Connects when it is used, again after an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    @property
    def name(self) -> str:
        """See ``Database``."""
        return f"SQLite file {self._path}"

    @contextmanager
    def transaction(self) -> Iterator[SqliteSql]:
        """See ``Database``."""
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteSql(connection)
            except BaseException:
                with suppress(sqlite3.Error):  # when its disk is full, SQLite has ended the transaction by itself
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StatesUnavailable(f"{self.name}: {error}{_remedy(error)}") from error

    def close(self) -> None:
        """See ``Database``."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Calls come from one thread after the other, never from two at once.
            connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._connection = connection
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        return self._connection


def _remedy(error: Exception) -> str:
    """What to do about a damaged file: nothing is in it that the log does not have."""
    if getattr(error, "sqlite_errorname", "") in DAMAGED:
        return (
            "; stop the server, delete this file and those that begin with its name, and it is made again from the log"
        )
    return ""


class SqliteSql:
    """See ``Sql``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """See ``Sql``."""
        self._connection.execute(statement, parameters)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """See ``Sql``."""
        self._connection.executemany(statement, rows)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """See ``Sql``."""
        cursor = self._connection.execute(statement, parameters)
        while part := cursor.fetchmany(FETCH_ROWS):
            yield from part
