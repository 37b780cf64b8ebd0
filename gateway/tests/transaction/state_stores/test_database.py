"""Rows of pending half messages, in SQLite; ``compat_tests/test_transaction_database.py`` has PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import RequestRefused
from gateway.tests.transaction.state_stores.stores import DATABASE, choice, follow, world_of
from gateway.tests.transaction.world import COMMIT, ROLLBACK, World
from gateway.transaction.state_stores.changes import UNKNOWN, Changes, Prepared, Settled, StatesLost
from gateway.transaction.state_stores.database import DatabaseStates, ForeignDatabase
from gateway.transaction.state_stores.sqlite import SqliteDatabase
from gateway.transaction.states import State
from wire.codes import ResponseCode


def half(offset: int) -> Prepared:
    return Prepared(offset, 1_000 * offset, 100, 5, f"g{offset}")


def settled(offset: int) -> Settled:
    return Settled(offset, 1_000 * offset, State.COMMITTED, 1_000 * offset + 500, 90)


def database(directory: Path, owner: str = "tests") -> DatabaseStates:
    return DatabaseStates(SqliteDatabase(directory / "rows.db"), owner)


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute('SELECT * FROM t_transaction ORDER BY "offset"').fetchall()


def changed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(statement)


def pending(world: World) -> list[object]:
    return [row[0] for row in rows(world.directory / "transaction" / "transactions.db")]


def test_a_row_says_where_the_half_message_lies_and_whose_it_is(tmp_path: Path) -> None:
    states = database(tmp_path)
    states.begin(0, 0)
    states.apply(Changes([half(0), half(1), half(2)], [settled(1)], position=3_000, half_end=3))
    assert rows(tmp_path / "rows.db") == [(0, "g0", 0, 100, 5), (2, "g2", 2_000, 100, 5)]
    states.apply(Changes([], [settled(0)], position=4_000, half_end=3))
    states.close()
    known = database(tmp_path).load(0, 10, 10**6)
    assert known.position == 4_000
    assert list(known.settled) == [(0, State.SETTLED), (1, State.SETTLED)]


def test_a_group_that_no_column_takes_is_shortened_and_the_row_stands(tmp_path: Path) -> None:
    states = database(tmp_path)
    states.begin(0, 0)
    odd = [Prepared(0, 0, 100, 5, "g" * 300), Prepared(1, 100, 100, 5, "a\0b"), Prepared(2, 200, 100, 5, "\ud800")]
    states.apply(Changes(odd, [], position=300, half_end=3))
    assert [row[1] for row in rows(tmp_path / "rows.db")] == ["g" * 255, "a\ufffdb", "?"]


@pytest.mark.parametrize(("log_end", "end"), [(2_999, 10), (10**6, 2)])
def test_a_database_ahead_of_the_log_knows_nothing_and_is_told_everything(
    tmp_path: Path, log_end: int, end: int
) -> None:
    states = database(tmp_path)
    states.begin(0, 0)
    states.apply(Changes([half(0), half(1), half(2)], [], position=3_000, half_end=3))
    states.close()
    again = database(tmp_path)
    assert again.load(0, end, log_end).position == UNKNOWN
    with pytest.raises(StatesLost):
        again.apply(Changes(position=1))
    again.apply(Changes([half(0)], position=1_000, half_end=1, is_whole=True))
    assert [row[0] for row in rows(tmp_path / "rows.db")] == [0]


def test_changes_whose_answer_was_lost_are_applied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction was made, but the connection broke before its answer came."""
    states = database(tmp_path)
    states.begin(0, 0)
    states.apply(Changes([half(0)], position=1_000, half_end=1))
    changes = Changes([half(1)], [settled(0)], position=2_000, half_end=2)
    before = states._sequence
    states.apply(changes)
    states._sequence = before
    states.apply(changes)
    states.apply(Changes([half(2)], [settled(1)], position=3_000, half_end=3))
    assert [row[0] for row in rows(tmp_path / "rows.db")] == [2]


def test_changes_of_a_copy_are_not_taken_for_ones_whose_answer_was_lost(tmp_path: Path) -> None:
    ours = DatabaseStates(SqliteDatabase(tmp_path / "rows.db"), "tests", ("a",))
    ours.begin(0, 0)
    copys = DatabaseStates(SqliteDatabase(tmp_path / "rows.db"), "tests", ("b", "a"))
    assert copys.load(0, 0, 0).position == 0
    copys.apply(Changes([half(0)], position=1_000, half_end=1))
    assert ours._sequence is not None
    ours._tried = ours._sequence + 1
    with pytest.raises(StatesLost):
        ours.apply(Changes([half(1)], position=2_000, half_end=2))


def test_the_rows_of_another_directory_are_never_touched(tmp_path: Path) -> None:
    database(tmp_path).begin(0, 0)
    other = database(tmp_path, "others")
    for act in (lambda: other.load(0, 1, 1), lambda: other.begin(0, 0), lambda: other.apply(Changes())):
        with pytest.raises(ForeignDatabase, match="give each broker a database or a schema of its own"):
            act()


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM t_transaction; DELETE FROM t_transaction_progress",
        "DELETE FROM t_transaction; UPDATE t_transaction_progress SET sequence = 0",
        "DROP TABLE t_transaction; DROP TABLE t_transaction_progress",
    ],
)
def test_a_database_with_other_content_is_told_everything_again(tmp_path: Path, harm: str) -> None:
    world = world_of(tmp_path, DATABASE)
    halves = [world.send(f"k{number}") for number in range(4)]
    world.end(halves[1], COMMIT)
    follow(world)
    changed(tmp_path / "transaction" / "transactions.db", harm)
    world.end(halves[2], ROLLBACK)
    follow(world)
    assert pending(world) == [0, 3]
    assert list(world.restart().transactions.pending) == [0, 3]


def test_half_messages_wait_for_the_database_up_to_a_limit_and_outcomes_go_on(tmp_path: Path) -> None:
    world = World(tmp_path, choice=choice(tmp_path, DATABASE, limit=3))
    first = world.send("k0")
    follow(world)
    path = tmp_path / "transaction" / "transactions.db"
    for name in ("transactions.db-wal", "transactions.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    follower = world.transactions._follower
    assert follower is not None
    assert follower._states is not None
    follower._states.close()
    path.rename(path.with_name("kept"))
    path.mkdir()
    sent = [world.send(f"m{number}") for number in range(4)]
    world.end(first, COMMIT)
    world.wait(3)
    with pytest.raises(RequestRefused, match=r"4 half messages wait for the transaction state store") as refused:
        world.transactions.half_of(world.message("no"))
    assert refused.value.code is ResponseCode.SERVICE_NOT_AVAILABLE
    assert "SQLite file" in refused.value.remark
    path.rmdir()
    path.with_name("kept").rename(path)
    world.wait(3)
    assert world.transactions.half_of(world.message("yes"))
    assert pending(world) == [half.queue_offset for half in sent]
    assert world.finals() == ["k0"]


def test_a_start_without_the_database_reads_the_log(tmp_path: Path) -> None:
    world = world_of(tmp_path, DATABASE)
    halves = [world.send(f"k{number}") for number in range(5)]
    follow(world)
    world.end(halves[2], COMMIT)
    path = tmp_path / "transaction" / "transactions.db"
    world.stop()
    path.rename(path.with_name("kept"))
    path.mkdir()
    again = world.restart()
    assert list(again.transactions.pending) == [0, 1, 3, 4]
    again.end(halves[0], ROLLBACK)
    path.rmdir()
    path.with_name("kept").rename(path)
    again.wait(3)
    assert pending(again) == [1, 3, 4]


def test_a_file_that_is_no_database_refuses_half_messages_and_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "transaction"
    world = World(tmp_path, choice=choice(tmp_path, DATABASE, limit=1))
    half = world.send("k0")
    world.stop()
    (directory / "transactions.db").write_bytes(b"no database" * 1_000)
    again = world.restart()
    again.send("k1")
    again.wait(3)
    assert again.transactions._follower is not None
    refusal = again.transactions._follower.refusal or ""
    assert "2 half messages wait for the transaction state store (gateway.transactionChangesLimit=1)" in refusal
    assert "file is not a database; stop the server, delete this file" in refusal
    again.end(half, COMMIT)
    assert again.finals() == ["k0"]
    again.stop()
    for path in directory.glob("transactions.db*"):  # as it was advised
        path.unlink()
    last = again.restart()
    assert list(last.transactions.pending) == [1]
    follow(last)
    assert pending(last) == [1]
