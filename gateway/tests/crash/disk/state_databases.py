"""State stores on the disk in memory: the real table, and the real statements on a database that is one file.

A transaction of that database is one change of the file's name, so it is there as a whole or not at all: what SQLite
and PostgreSQL promise. What happens between two of them is what the enumeration is after.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.broker.takeover import CopyMark
from gateway.settings.transaction import TransactionStateStore
from gateway.tests.crash.disk.recording import RecordingFiles
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.state_stores.sqlite import SqliteSql

FILE_UNITS = 16
"""Of tables and redo logs: some files fill up and go."""


class FileDatabase:
    """See ``Database``."""

    name = "database in a file"

    def __init__(self, path: Path, files: RecordingFiles) -> None:
        self._path = path
        self._files = files

    @contextmanager
    def transaction(self) -> Iterator[SqliteSql]:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            before = self._files.read(self._path) if self._files.exists(self._path) else b""
            if before:
                connection.deserialize(before)
            yield SqliteSql(connection)
            after = connection.serialize()
        if after != before:
            fresh = self._path.with_name("rows.new")
            self._files.make_directory(self._path.parent)
            self._files.write(fresh, after)
            self._files.rename(fresh, self._path)
            self._files.fsync_directory(self._path.parent)
            self._files.fsync_directory(self._path.parent.parent)

    def close(self) -> None:
        """Implement ``Database``."""


def wanted_after(root: Path, files: RecordingFiles, wanted: TransactionStateStore) -> TransactionStateStore:
    """Return the state store that a directory is meant for.

    :param wanted: the answer for a directory that was never handed over.
    """
    note, known = root / "handed-over-to", root / "transaction" / "state-store"
    if not files.exists(note):
        return wanted
    if CopyMark(root, files).is_set:
        return TransactionStateStore(files.read(note).decode())
    return state_choice(root, files, wanted).remembered.load().store if files.exists(known) else wanted


def hand_over(root: Path, files: RecordingFiles, to: TransactionStateStore) -> None:
    """Make a directory that nobody serves a copy that a broker with another state store takes over."""
    note, fresh = root / "handed-over-to", root / "handed-over-to.new"
    files.write(fresh, to.encode())
    files.rename(fresh, note)
    files.fsync_directory(root)
    CopyMark(root, files).set()


def state_choice(root: Path, files: RecordingFiles, wanted: TransactionStateStore) -> StateChoice:
    """Return the state store that a broker of these tests uses."""
    path = root / "transaction" / "rows"
    return StateChoice(
        root=root,
        wanted=wanted,
        files=files,
        file_units=FILE_UNITS,
        make_identity=lambda: "crash",
        open_rows=lambda: FileDatabase(path, files),
    )
