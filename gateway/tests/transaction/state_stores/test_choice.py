"""A directory remembers its state store; another one is used only when nothing is pending."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copytree

import pytest

from gateway.settings import Settings
from gateway.settings.transaction import TransactionStateStore
from gateway.tests.transaction.state_stores.stores import DATABASE, OTHERS, QUEUE, choice, follow
from gateway.tests.transaction.world import COMMIT, ROLLBACK, World
from gateway.transaction.state_stores.choice import OtherStateStore, StateChoice
from gateway.transaction.state_stores.remembered import Remembered, RememberedStore
from gateway.transaction.states import State

ALL = list(TransactionStateStore)
changes = pytest.mark.parametrize(
    ("before", "after"), [(before, after) for before in ALL for after in ALL if before is not after]
)


def restart(world: World, wanted: TransactionStateStore) -> World:
    world.choice = choice(world.directory, wanted)
    return world.restart()


@changes
def test_another_store_is_refused_while_something_is_pending(
    tmp_path: Path, before: TransactionStateStore, after: TransactionStateStore
) -> None:
    world = World(tmp_path, choice=choice(tmp_path, before))
    world.end(world.send("k0"), COMMIT)
    world.send("k1")
    world.stop()
    with pytest.raises(OtherStateStore) as refused:
        restart(world, after)
    assert "1 pending transactions" in str(refused.value)
    assert f"store migrate-transactions {tmp_path} --to {after} --apply" in str(refused.value)
    again = restart(world, before)
    assert list(again.transactions.pending) == [1]


@changes
def test_another_store_is_used_when_nothing_is_pending(
    tmp_path: Path, before: TransactionStateStore, after: TransactionStateStore
) -> None:
    world = World(tmp_path, choice=choice(tmp_path, before))
    settled = [world.send(f"k{number}") for number in range(4)]
    for half, outcome in zip(settled, [COMMIT, ROLLBACK, COMMIT, ROLLBACK], strict=True):
        world.end(half, outcome)
    follow(world)
    world.offsets.table.clear()  # nobody else remembers how far everything is settled
    again = restart(world, after)
    half = again.send("k4")
    follow(again)
    last = restart(again, after)
    assert list(last.transactions.pending) == [half.queue_offset]
    assert last.transactions.tables.outcomes.state(0) is not State.PENDING
    last.end(half, COMMIT)
    assert last.finals() == ["k0", "k2", "k4"]


@pytest.mark.parametrize("wanted", OTHERS)
def test_outcomes_that_a_crash_left_without_op_record_are_not_forgotten_by_a_change(
    tmp_path: Path, wanted: TransactionStateStore
) -> None:
    world = World(tmp_path, choice=choice(tmp_path, QUEUE))
    half = world.send("k0")
    world.end(half, COMMIT)
    world.log = world.log.cut(world.log.messages("orders")[-1].commit_log_offset + 500)
    again = restart(world, wanted)
    again.end(half, COMMIT)
    again.end(half, ROLLBACK)
    assert again.finals() == ["k0"]


def test_settings_say_which_store_and_which_database() -> None:
    made = StateChoice.from_settings(
        Settings(transaction_state_store=DATABASE, transaction_database="sqlite:/x", transaction_changes_limit=7)
    )
    assert (made.wanted, made.database, made.limit) == (DATABASE, "sqlite:/x", 7)
    assert made.directory == made.root / "transaction"


def test_a_sqlite_file_may_lie_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "rows.db"
    world = World(tmp_path / "data", choice=choice(tmp_path / "data", DATABASE, database=f"sqlite:{path}"))
    world.send("k0")
    follow(world)
    assert path.exists()
    assert list(world.restart().transactions.pending) == [0]


def test_what_a_copy_of_the_directory_did_to_the_rows_is_not_believed(tmp_path: Path) -> None:
    """Both go by the same database: the rows that the copy wrote fit the log of the original by accident."""
    root, copy, dsn = tmp_path / "data", tmp_path / "copy", f"sqlite:{tmp_path}/shared.db"
    world = World(root, choice=StateChoice(root=root, wanted=DATABASE, database=dsn))
    for number in range(4):
        world.send(f"k{number}")
    follow(world)
    world.stop()
    copytree(root, copy)
    other = World(copy, choice=StateChoice(root=copy, wanted=DATABASE, database=dsn))
    for number in range(2):
        other.end(other.send(f"c{number}"), COMMIT)
    follow(other)
    other.stop()
    again = world.restart()
    assert list(again.transactions.pending) == [0, 1, 2, 3]
    follow(again)
    assert list(again.restart().transactions.pending) == [0, 1, 2, 3]


def test_rows_that_a_copy_writes_meanwhile_are_written_again(tmp_path: Path) -> None:
    root, copy, dsn = tmp_path / "data", tmp_path / "copy", f"sqlite:{tmp_path}/shared.db"
    world = World(root, choice=StateChoice(root=root, wanted=DATABASE, database=dsn))
    world.send("k0")
    follow(world)
    copytree(root, copy)
    other = World(copy, choice=StateChoice(root=copy, wanted=DATABASE, database=dsn))
    other.end(other.send("c0"), COMMIT)
    follow(other)
    world.send("k1")
    follow(world)
    with closing(sqlite3.connect(tmp_path / "shared.db")) as connection:
        assert connection.execute('SELECT "offset" FROM t_transaction').fetchall() == [(0,), (1,)]


def test_a_directory_of_an_earlier_version_opens_and_gets_tokens(tmp_path: Path) -> None:
    world = World(tmp_path, choice=choice(tmp_path, DATABASE))
    half = world.send("k0")
    world.end(world.send("k1"), COMMIT)
    follow(world)
    world.stop()
    path = tmp_path / "transaction" / "state-store"
    path.write_text("store=database\nfirst=0\nidentity=tests\n")
    with closing(sqlite3.connect(path.with_name("transactions.db"), isolation_level=None)) as connection:
        connection.execute("UPDATE t_transaction_progress SET owner = 'tests'")
    states = choice(tmp_path, DATABASE).make_rows(RememberedStore(path.parent).load())
    assert states.load(0, 2, 10**6).position > 0
    states.close()
    again = world.restart()
    assert list(again.transactions.pending) == [0]
    remembered = RememberedStore(path.parent).load()
    assert remembered.tokens == ("tests", "")
    assert remembered.database == ""
    again.end(half, COMMIT)
    follow(again)
    assert again.restart().transactions.pending.count == 0


def test_a_database_that_comes_back_without_the_transactions_is_not_filled_when_it_is_the_wrong_one(
    tmp_path: Path,
) -> None:
    right = tmp_path / "right.db"
    world = World(tmp_path, choice=StateChoice(root=tmp_path, wanted=DATABASE, database=f"sqlite:{right}"))
    world.send("k0")
    follow(world)
    world.stop()
    wrong = tmp_path / "wrong.db"
    wrong.mkdir()  # not reachable while the broker starts
    world.choice = StateChoice(root=tmp_path, wanted=DATABASE, database=f"sqlite:{wrong}", limit=1)
    again = world.restart()
    assert list(again.transactions.pending) == [0]
    wrong.rmdir()
    for number in range(3):
        again.send(f"m{number}")
        again.wait(2)
    assert again.transactions._follower is not None
    assert f"set gateway.transactionDatabase=sqlite:{right}" in (again.transactions._follower.refusal or "")


def test_the_refusal_names_the_database_in_the_command(tmp_path: Path) -> None:
    dsn = f"sqlite:{tmp_path}/rows.db"
    world = World(tmp_path, choice=choice(tmp_path, DATABASE, database=dsn))
    world.send("k0")
    world.stop()
    world.choice = choice(tmp_path, QUEUE, database=dsn)
    with pytest.raises(OtherStateStore, match=f"--to queue --set gateway.transactionDatabase={dsn} --apply"):
        world.restart()


def test_a_kill_while_a_database_begins_does_not_make_it_another_directorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = iter("abc")
    made = StateChoice(root=tmp_path, wanted=DATABASE, make_identity=lambda: next(identities))
    honest, saved = RememberedStore.save, []

    def killed(self: RememberedStore, remembered: Remembered) -> None:
        saved.append(remembered.store)
        if remembered.store is DATABASE:
            raise KeyboardInterrupt
        honest(self, remembered)

    monkeypatch.setattr(RememberedStore, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        World(tmp_path, choice=made)
    monkeypatch.undo()
    assert saved == [QUEUE, DATABASE]
    assert World(tmp_path, choice=made).transactions.pending.count == 0
