"""The choice of a broker's state store, and how each store is made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.errors import GatewayError
from gateway.settings.transaction import TransactionStateStore
from gateway.store.disk.files import FileLayer
from gateway.transaction.needs import LogAccess
from gateway.transaction.state_stores.changes import StatesUnavailable, TransactionStates
from gateway.transaction.state_stores.follower import CHANGES_LIMIT
from gateway.transaction.state_stores.remembered import Remembered, RememberedStore, migrate_command
from gateway.transaction.tables.pending import Pending
from wire.disk.state_table import FILE_UNITS

if TYPE_CHECKING:
    from gateway.settings.tree import Settings
    from gateway.transaction.state_stores.database import Database, DatabaseStates

SQLITE_PREFIX = "sqlite:"


class OtherStateStore(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """The directory has pending transactions in another state store than the wanted one."""

    def __init__(
        self, directory: Path, has: TransactionStateStore, wanted: TransactionStateStore, count: int, database: str = ""
    ) -> None:
        super().__init__(
            f"{directory} has {count} pending transactions in the state store '{has}', and transactionStateStore is "
            f"'{wanted}': run {migrate_command(directory, wanted, now=database)}, or set transactionStateStore={has}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChoice:
    """The state stores of one store directory.

    :param root: the store's directory.
    :param wanted: the state store that the settings ask for.
    :param limit: how many half messages may wait for a table or database that fails.
    :param database: the database, in the form of ``gateway.transactionDatabase``.
    """

    root: Path
    wanted: TransactionStateStore
    files: FileLayer | None = None
    limit: int = CHANGES_LIMIT
    database: str = ""
    file_units: int = FILE_UNITS
    make_identity: Callable[[], str] | None = None
    open_rows: Callable[[], Database] | None = None
    """The function that opens the rows in another database than the named one; None: the named database."""
    remembered: RememberedStore = field(init=False)

    def __post_init__(self) -> None:
        remembered = RememberedStore(self.directory, files=self.files, make_identity=self.make_identity)
        object.__setattr__(self, "remembered", remembered)

    @classmethod
    def from_settings(cls, settings: Settings, files: FileLayer | None = None) -> StateChoice:
        """Return the choice that the broker's settings ask for."""
        return cls(
            root=settings.store_path_root_dir,
            wanted=settings.transaction_state_store,
            files=files,
            limit=settings.transaction_changes_limit,
            database=settings.transaction_database,
        )

    @property
    def directory(self) -> Path:
        """The directory with the files of state stores."""
        return self.root / "transaction"

    @property
    def has_own_database(self) -> bool:
        """True if the database is inside the directory, so that a copy of the directory also copies the database."""
        file = database_file(self.database, self.directory)
        return file is not None and self.root.absolute() in file.absolute().parents

    def make(self, store: TransactionStateStore, remembered: Remembered) -> TransactionStates | None:
        """Make a state store; None for ``queue``, which keeps its states in the op records of the log.

        :raises ConfigurationError: the name of the database is wrong, or its driver is missing.
        """
        if store is TransactionStateStore.QUEUE:
            return None
        if store is TransactionStateStore.TABLE:
            from gateway.transaction.state_stores.table import TableStates

            return TableStates(self.directory, files=self.files, file_units=self.file_units)
        return self.make_rows(remembered)

    def make_rows(self, remembered: Remembered) -> DatabaseStates:
        """Make the database, with the same errors as ``make``."""
        from gateway.transaction.state_stores.database import DatabaseStates

        database = open_database(self.database, self.directory) if self.open_rows is None else self.open_rows()
        elsewhere: str | None = None
        has = remembered.database
        if remembered.store is TransactionStateStore.DATABASE and has is not None and has != self.database:
            elsewhere = self._elsewhere(database.name, has)
        return DatabaseStates(database, remembered.identity, remembered.tokens, elsewhere)

    def check_database(self) -> None:
        """Check that a database outside the directory belongs to no other directory; blocks.

        A database that cannot be reached now is not checked.

        :raises ForeignDatabase: another directory uses the rows.
        :raises ConfigurationError: the name of the database is wrong, or its driver is missing.
        """
        if self.wanted is not TransactionStateStore.DATABASE or self.has_own_database:
            return
        states = self.make_rows(self.remembered.load())
        try:
            with suppress(StatesUnavailable):
                states.is_ours()
        finally:
            states.close()

    def claim(self, has: Remembered, states: TransactionStates | None) -> None:
        """Give the database of a start a new token, so that its use by a copy of the directory is noticed."""
        from gateway.transaction.state_stores.database import DatabaseStates

        if not isinstance(states, DatabaseStates) or not states.is_reached:
            return
        tokens = self.remembered.new_token(), *(() if states.token is None else (states.token,))
        # Saved before the database gets the token.
        self.remembered.save(replace(has, tokens=tokens, database=self.database))
        states.claim(tokens)

    def began(self, has: Remembered, first: int) -> Remembered:
        """Return what is remembered when the wanted state store starts with everything below ``first`` settled."""
        if self.wanted is not TransactionStateStore.DATABASE:
            return replace(has, store=self.wanted, first=first, is_searched=False)
        tokens = (self.remembered.new_token(),)
        return replace(has, store=self.wanted, first=first, tokens=tokens, database=self.database, is_searched=False)

    def _elsewhere(self, name: str, has: str) -> str:
        move = migrate_command(self.root, TransactionStateStore.DATABASE, now=has, to=self.database)
        return (
            f"{self.root} has its pending transactions in {_named(has)}, and gateway.transactionDatabase is "
            f"{_named(self.database)}, where they are not ({name}): set gateway.transactionDatabase={has}, "
            f"or move them with {move}"
        )

    def switch(
        self, has: Remembered, states: TransactionStates | None, log: LogAccess, pending: Pending
    ) -> TransactionStates | None:
        """Change to the wanted state store, which is made again. Nothing may be pending.

        :raises OtherStateStore: half messages are pending.
        """
        if pending.count:
            raise OtherStateStore(self.root, has.store, self.wanted, pending.count, self.database)
        self.remembered.save(has)  # the identity is saved before a database gets it
        fresh = self.began(has, pending.end)
        begun = self.make(self.wanted, fresh)
        if begun is not None:
            begun.begin(pending.end, log.max_commit_log_offset)
        self.remembered.save(fresh)
        if states is not None:
            states.close()
        return begun


def database_file(dsn: str, directory: Path) -> Path | None:
    """Return the file that a DSN names; None for a database server.

    An empty DSN names SQLite's file in ``directory``.
    """
    from gateway.transaction.state_stores.sqlite import FILE_NAME

    if dsn and not dsn.startswith(SQLITE_PREFIX):
        return None
    return Path(dsn.removeprefix(SQLITE_PREFIX)) if dsn else directory / FILE_NAME


def open_database(dsn: str, directory: Path) -> Database:
    """Open the database that a DSN names. An empty DSN names SQLite's file in ``directory``."""
    from gateway.transaction.state_stores.sqlite import SqliteDatabase

    file = database_file(dsn, directory)
    if file is not None:
        return SqliteDatabase(file)
    from gateway.transaction.state_stores.postgresql import PostgresDatabase

    return PostgresDatabase(dsn)


def _named(database: str) -> str:
    return database or "'' (SQLite in the directory)"
