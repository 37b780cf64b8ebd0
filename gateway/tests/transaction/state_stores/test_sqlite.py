from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.transaction.state_stores import sqlite
from gateway.transaction.state_stores.changes import StatesUnavailable
from gateway.transaction.state_stores.sqlite import SqliteDatabase

WAL, FULL = "wal", 2


def test_what_is_committed_is_on_disk_and_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "FETCH_ROWS", 2)
    database = SqliteDatabase(tmp_path / "new" / "rows.db")
    with database.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER)")
        sql.execute_many("INSERT INTO t VALUES (?)", [(number,) for number in range(5)])
    with database.transaction() as sql:
        assert [number for (number,) in sql.rows("SELECT n FROM t WHERE n > ?", (0,))] == [1, 2, 3, 4]
        assert list(sql.rows("PRAGMA journal_mode")) == [(WAL,)]
        assert list(sql.rows("PRAGMA synchronous")) == [(FULL,)]
    database.close()
    database.close()


def test_what_raises_is_undone(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "rows.db")
    with database.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER)")
    with pytest.raises(StatesUnavailable, match="no such table"), database.transaction() as sql:
        list(map(sql.execute, ["INSERT INTO t VALUES (1)", "INSERT INTO none VALUES (1)"]))
    with database.transaction() as sql:
        assert list(sql.rows("SELECT * FROM t")) == []
    database.close()


def test_a_database_that_somebody_keeps_locked_is_unavailable_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.01)
    database = SqliteDatabase(tmp_path / "rows.db")
    with database.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER)")
    with closing(sqlite3.connect(tmp_path / "rows.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        database.close()
        unavailable = pytest.raises(StatesUnavailable, match=r"SQLite file .*rows\.db: database is locked")
        with unavailable, database.transaction() as sql:
            sql.execute("INSERT INTO t VALUES (1)")
        other.execute("ROLLBACK")
    with database.transaction() as sql:
        sql.execute("INSERT INTO t VALUES (1)")
    database.close()


def test_point_8_a_full_disk_is_named_loses_no_row_and_ends_when_there_is_room(tmp_path: Path) -> None:
    """SQLite ends the transaction by itself when the disk is full."""
    database = SqliteDatabase(tmp_path / "rows.db")
    with database.transaction() as sql:
        sql.execute("CREATE TABLE t (n BLOB)")
        sql.execute("INSERT INTO t VALUES (1)")
    with database.transaction() as sql:
        assert list(sql.rows("PRAGMA max_page_count = 2")) == [(2,)]  # of this connection: a disk that is full
    full = pytest.raises(StatesUnavailable, match=r"SQLite file .*rows\.db: database or disk is full")
    with full, database.transaction() as sql:
        sql.execute_many("INSERT INTO t VALUES (zeroblob(?))", [(10_000,)])
    with database.transaction() as sql:
        sql.execute("INSERT INTO t VALUES (2)")
        assert list(sql.rows("SELECT n FROM t")) == [(1,), (2,)]
    database.close()


def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StatesUnavailable, match="SQLite file"), SqliteDatabase(tmp_path / "file" / "x").transaction():
        pass
