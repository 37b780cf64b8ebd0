"""PostgreSQL through psycopg 3 and its pool, for ``gateway.transactionDatabase = postgresql://…``.

The extra ``postgres`` installs the driver. The pool reconnects by itself, and a broken connection is noticed before its
next use. The password comes from where libpq looks for it (``PGPASSWORD``, ``PGPASSFILE``, a service file).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from gateway.errors import SettingsError
from gateway.transaction.state_stores.changes import StatesUnavailable
from gateway.transaction.state_stores.database import FETCH_ROWS

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 10_000
POOL_TIMEOUT_S = 6.0
"""The longest wait of a change for a connection. After that the database counts as unavailable."""
RECONNECT_TIMEOUT_S = 5.0
MAX_CONNECTIONS = 2
"""The largest number of connections: one for changes, and one that replaces a broken connection."""


class PostgresDatabase:
    """The database and schema that a DSN names.

    :raises ConfigurationError: the extra is not installed, or the DSN makes no sense.
    """

    def __init__(self, dsn: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
            from psycopg_pool import ConnectionPool, PoolTimeout
        except ImportError as error:
            raise SettingsError(
                f"gateway.transactionDatabase names PostgreSQL, whose driver is missing ({error}): "
                "pip install 'rocketmq-gateway[postgres]'"
            ) from error
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.Error as error:
            raise SettingsError(f"gateway.transactionDatabase: {str(error).strip()}") from error
        # The pool logs a warning for each attempt to connect; the follower reports the problem once.
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        self._errors = (psycopg.Error, PoolTimeout, OSError)
        self._pool_timeout = PoolTimeout
        self._connect_error: Exception | None = None
        """The error of the last attempt to connect, because the pool's own error only says that the pool waited."""

        class Telling(psycopg.Connection[tuple[Any, ...]]):
            """A connection that remembers why it could not be made."""

            @classmethod
            def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
                try:
                    connection = super().connect(conninfo, **kwargs)
                except (psycopg.Error, OSError) as error:
                    remember(error)
                    raise
                remember(None)
                return connection

        def remember(error: Exception | None) -> None:
            self._connect_error = error

        host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
        self._name = f"PostgreSQL database {name or '(default)'} at {host or 'localhost'}{f':{port}' if port else ''}"
        self._is_open = False
        self._pool: ConnectionPool[Connection[tuple[Any, ...]]] = ConnectionPool(
            dsn,
            connection_class=Telling,
            min_size=1,
            max_size=MAX_CONNECTIONS,
            open=False,
            timeout=POOL_TIMEOUT_S,
            reconnect_timeout=RECONNECT_TIMEOUT_S,
            check=ConnectionPool.check_connection,
            kwargs={"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "rocketmq-gateway"},
            configure=_configure,
            name="transaction-states",
        )

    @property
    def name(self) -> str:
        """Implement ``Database.name``."""
        return self._name

    @contextmanager
    def transaction(self) -> Iterator[PostgresSql]:
        """Implement ``Database.transaction``."""
        try:
            if not self._is_open:
                self._pool.open()
                self._is_open = True
            # If the block ends without an error, the connection commits; after its answer the transaction is on disk.
            with self._pool.connection() as connection:
                yield PostgresSql(connection)
        except self._errors as error:
            raise StatesUnavailable(f"{self.name}: {self._reason(error)}") from error

    def close(self) -> None:
        """Implement ``Database.close``."""
        if self._is_open:
            self._pool.close()

    def _reason(self, error: Exception) -> str:
        """Return what went wrong, in one line."""
        why = self._connect_error if isinstance(error, self._pool_timeout) else None
        text = " ".join(str(error if why is None else why).split())
        return text or type(error).__name__


def _configure(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Set a connection so that it acknowledges only what is on disk, and limits the time of each statement.

    The server may be set up for speed, and no server may block us for ever.
    """
    connection.execute("SET synchronous_commit = on")
    connection.execute(f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}")
    connection.commit()


class PostgresSql:
    """Implement ``SqlTransaction``."""

    def __init__(self, connection: Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Implement ``SqlTransaction.execute``."""
        self._connection.execute(_placed(statement), parameters)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Implement ``SqlTransaction.execute_many``."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_placed(statement), rows)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Implement ``SqlTransaction.rows``."""
        with self._connection.cursor() as cursor:
            cursor.execute(_placed(statement), parameters)
            while part := cursor.fetchmany(FETCH_ROWS):
                yield from part


def _placed(statement: str) -> bytes:
    """Return a statement with psycopg's mark for parameters, as bytes. All statements are written in this package."""
    return statement.replace("?", "%s").encode()
