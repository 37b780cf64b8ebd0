"""The state store that a directory uses, in one small file.

Pending transactions are thus never searched in another store.

    transaction/state-store     key=value lines: store, first (half-queue offset), identity, tokens, database, searched

Half messages below ``first`` were settled when the store was begun. A directory without the file uses the op records
(``queue``), as directories of Apache RocketMQ do. ``tokens`` are also in the database: a database without one of these
tokens does not have the transactions of this directory, whatever its name. Files of earlier versions end with
``identity``. ``searched`` stands there from a takeover until its missing op records are on disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from shlex import quote

from gateway.errors import GatewayError
from gateway.settings.transaction import TransactionStateStore
from gateway.store.disk.files import FileLayer
from gateway.store.disk.small_files import read_file, replace_file

FILE_NAME = "state-store"
MAX_BYTES = 65_536
OTHERS = "tablemark", "transactions.db"
"""The files that a table and SQLite leave.

The file ``state-store`` is written before them, so without it they are left over from a loss.
"""
NO_TOKEN = ""
"""The token of a database that an earlier version began, and that has the identity alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The content of the file.

    :param identity: the name of the directory in a database; copies of the directory have the same identity.
    :param tokens: the database has one of the tokens and gets the first one. Each start renews the tokens, so that
        changes by a copy of the directory are noticed.
    :param database: the value of ``gateway.transactionDatabase``, which has no password; None: not known.
    :param is_searched: whether op records may be missing, so that a start searches the log for other evidence.
    """

    store: TransactionStateStore = TransactionStateStore.QUEUE
    first: int = 0
    identity: str = ""
    tokens: tuple[str, ...] = (NO_TOKEN,)
    database: str | None = None
    is_searched: bool = False

    def build(self) -> bytes:
        """Return the content as the file has it."""
        lines = [f"store={self.store}", f"first={self.first}", f"identity={self.identity}"]
        if self.tokens != (NO_TOKEN,):
            lines.append(f"tokens={','.join(self.tokens)}")
        if self.database is not None:
            lines.append(f"database={json.dumps(self.database)}")
        if self.is_searched:
            lines.append("searched=1")
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def parse(cls, text: str) -> Remembered:
        """Return the content of a file.

        :raises ValueError: the file is damaged; the text says where.
        """
        values: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            key, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"line {number} is not key=value")
            values[key] = value
        for key in ("store", "first", "identity"):
            if key not in values:
                raise ValueError(f"the line '{key}=' is missing")
        return cls(
            store=TransactionStateStore(values["store"]),
            first=int(values["first"]),
            identity=values["identity"],
            tokens=tuple(values.get("tokens", NO_TOKEN).split(",")),
            database=str(json.loads(values["database"])) if "database" in values else None,
            is_searched="searched" in values,
        )


def migrate_command(root: Path, wanted: TransactionStateStore, *, now: str | None, to: str | None = None) -> str:
    """Return the command that moves a directory's pending transactions.

    :param now: the database that has them, in the form of the setting; None or empty: the command does not name it.
    :param to: the database to move to; None for the same database.
    """
    words = ["rocketmq-gateway", "store", "migrate-transactions", str(root), "--to", str(wanted)]
    if to is not None:
        words += ["--dsn", to]
    if now:
        words += ["--set", f"gateway.transactionDatabase={now}"]
    return " ".join(map(quote, [*words, "--apply"]))


class RememberedStore:
    """The file ``state-store`` of a directory.

    :param directory: the folder ``transaction`` below the store's directory.
    :param make_identity: returns a name that no other directory has.
    """

    def __init__(
        self, directory: Path, *, files: FileLayer | None = None, make_identity: Callable[[], str] | None = None
    ) -> None:
        self._files: FileLayer = FileLayer() if files is None else files
        self._make_identity = make_identity or (lambda: token_hex(8))
        self.path = directory / FILE_NAME

    def load(self) -> Remembered:
        """Return what the file says. A directory without the file gets an identity with the next ``save``.

        :raises GatewayError: the file cannot be understood, or is missing although another store than ``queue`` was
            used.
        :raises OSError: the file cannot be read.
        """
        if not self._files.exists(self.path):
            for name in OTHERS:
                if self._files.exists(self.path.with_name(name)):
                    raise GatewayError(
                        f"{self.path} is missing, but there is {name}, which only another transaction state store than "
                        "'queue' leaves: restore it from a copy of the directory"
                    )
            return Remembered(identity=self._make_identity())
        text = read_file(self._files, self.path, MAX_BYTES).decode("utf-8", "replace")
        try:
            return Remembered.parse(text)
        except ValueError as error:
            raise GatewayError(
                f"{self.path} does not say which transaction state store is used ({error}): restore it from a copy of "
                "the directory, or write its lines anew: store=queue, table or database (the one that was used), "
                "first=0, identity=NAME (with a database the part before the dot of t_transaction_progress.owner)"
            ) from error

    def new_token(self) -> str:
        """Return a token that no database has yet."""
        return self._make_identity()

    def save(self, remembered: Remembered) -> None:
        """Replace the file. The file is on disk when this method returns.

        :raises OSError: the file cannot be written.
        :raises GatewayError: the content is longer than 65,536 bytes.
        """
        files = self._files
        files.make_directory(self.path.parent)
        text = remembered.build()
        if len(text) > MAX_BYTES:
            raise GatewayError(f"gateway.transactionDatabase is longer than {self.path} may be ({MAX_BYTES} bytes)")
        replace_file(files, self.path, text)
        files.fsync_directory(self.path.parent.parent)
