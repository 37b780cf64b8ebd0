"""A directory remembers its state store; another one is used only when nothing is pending."""

from __future__ import annotations

from pathlib import Path

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
    assert last.transactions.state(0) is not State.PENDING
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
