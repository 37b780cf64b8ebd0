"""Which state store a broker uses, and how each of them is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.errors import GatewayError
from gateway.settings.transaction import TransactionStateStore
from gateway.store.files import FileLayer
from gateway.transaction.log_access import LogAccess
from gateway.transaction.pending import Pending
from gateway.transaction.state_stores.changes import TransactionStates
from gateway.transaction.state_stores.follower import CHANGES_LIMIT
from gateway.transaction.state_stores.remembered import Remembered, RememberedStore
from wire.disk.state_table import FILE_UNITS

if TYPE_CHECKING:
    from gateway.settings.tree import Settings

SQLITE_PREFIX = "sqlite:"


class OtherStateStore(GatewayError):  # noqa: N818 (says what is, not that it is an error)
    """The directory has pending transactions in another state store than the one that is asked for."""

    def __init__(self, directory: Path, has: TransactionStateStore, wanted: TransactionStateStore, count: int) -> None:
        super().__init__(
            f"{directory} has {count} pending transactions in the state store '{has}', and transactionStateStore is "
            f"'{wanted}': run rocketmq-gateway store migrate-transactions {directory} --to {wanted} --apply, "
            f"or set transactionStateStore={has}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChoice:
    """A store directory's state stores.

    :param root: the store's directory.
    :param wanted: which one is to be used.
    :param limit: half messages that may wait for a table or database that fails.
    :param open_database: makes the database of an identity; the settings' when made by ``from_settings``.
    """

    root: Path
    wanted: TransactionStateStore
    files: FileLayer | None = None
    limit: int = CHANGES_LIMIT
    database: str = ""
    file_units: int = FILE_UNITS
    make_identity: Callable[[], str] | None = None
    open_states: Callable[[str], TransactionStates] | None = None
    """Instead of a database, for tests: makes the states of an identity."""
    remembered: RememberedStore = field(init=False)

    def __post_init__(self) -> None:
        remembered = RememberedStore(self.directory, files=self.files, make_identity=self.make_identity)
        object.__setattr__(self, "remembered", remembered)

    @classmethod
    def from_settings(cls, settings: Settings, files: FileLayer | None = None) -> StateChoice:
        """What the broker's settings ask for."""
        return cls(
            root=settings.store_path_root_dir,
            wanted=settings.transaction_state_store,
            files=files,
            limit=settings.transaction_changes_limit,
            database=settings.transaction_database,
        )

    @property
    def directory(self) -> Path:
        """Where the files of state stores are."""
        return self.root / "transaction"

    def make(self, store: TransactionStateStore, identity: str) -> TransactionStates | None:
        """A state store; None for ``queue``, which is the op records in the log.

        :raises ConfigurationError: the database is named wrongly, or its driver is missing.
        """
        if store is TransactionStateStore.QUEUE:
            return None
        if store is TransactionStateStore.TABLE:
            from gateway.transaction.state_stores.table import TableStates

            return TableStates(self.directory, files=self.files, file_units=self.file_units)
        if self.open_states is not None:
            return self.open_states(identity)
        return open_database(self.database, self.directory, identity)

    def switch(
        self, has: Remembered, states: TransactionStates | None, log: LogAccess, pending: Pending
    ) -> TransactionStates | None:
        """Go over to the wanted state store, which is made anew: nothing may be pending.

        :raises OtherStateStore: something is.
        """
        if pending.count:
            raise OtherStateStore(self.root, has.store, self.wanted, pending.count)
        self.remembered.save(has)  # the identity, before a database learns it
        begun = self.make(self.wanted, has.identity)
        if begun is not None:
            begun.begin(pending.end, log.max_commit_log_offset)
        self.remembered.save(Remembered(store=self.wanted, first=pending.end, identity=has.identity))
        if states is not None:
            states.close()
        return begun


def open_database(dsn: str, directory: Path, identity: str) -> TransactionStates:
    """The database that a DSN names; SQLite in a directory when it names none."""
    from gateway.transaction.state_stores.database import Database, DatabaseStates
    from gateway.transaction.state_stores.sqlite import FILE_NAME, SqliteDatabase

    database: Database
    if dsn and not dsn.startswith(SQLITE_PREFIX):
        from gateway.transaction.state_stores.postgresql import PostgresDatabase

        database = PostgresDatabase(dsn)
    else:
        database = SqliteDatabase(Path(dsn.removeprefix(SQLITE_PREFIX)) if dsn else directory / FILE_NAME)
    return DatabaseStates(database, identity)
