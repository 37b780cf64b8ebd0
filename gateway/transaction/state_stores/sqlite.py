"""SQLite: a file in the store's directory, or where ``gateway.transactionDatabase`` says. Nothing to install.

SQLite keeps a write-ahead log, and every transaction is on disk before it counts (``synchronous = FULL``).
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
"""The longest wait for another program that uses the file. After that the database counts as unavailable."""
DAMAGED = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT"})
"""SQLite's names for a file whose content makes no sense."""


class SqliteDatabase:
    """One SQLite file. Connects on first use, and again after an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    @property
    def name(self) -> str:
        """Implement ``Database.name``."""
        return f"SQLite file {self._path}"

    @contextmanager
    def transaction(self) -> Iterator[SqliteSql]:
        """Implement ``Database.transaction``."""
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteSql(connection)
            except BaseException:
                with suppress(sqlite3.Error):  # on a full disk, SQLite has already ended the transaction
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StatesUnavailable(f"{self.name}: {error}{_remedy(error)}") from error

    def close(self) -> None:
        """Implement ``Database.close``."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Several threads call, but never two at the same time.
            connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._connection = connection
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        return self._connection


def _remedy(error: Exception) -> str:
    """Return what to do about a damaged file. The log has everything that the file had."""
    if getattr(error, "sqlite_errorname", "") in DAMAGED:
        return (
            "; stop the server, delete this file and those that begin with its name, and it is made again from the log"
        )
    return ""


class SqliteSql:
    """Implement ``SqlTransaction``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Implement ``SqlTransaction.execute``."""
        self._connection.execute(statement, parameters)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Implement ``SqlTransaction.execute_many``."""
        self._connection.executemany(statement, rows)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Implement ``SqlTransaction.rows``."""
        cursor = self._connection.execute(statement, parameters)
        while part := cursor.fetchmany(FETCH_ROWS):
            yield from part
