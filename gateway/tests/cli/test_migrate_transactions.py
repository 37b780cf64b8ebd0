"""``store migrate-transactions`` as people call it; what it does is tested beside ``migration``."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from shlex import split
from shutil import copytree

import pytest
from click.testing import CliRunner, Result
from twisted.internet.task import Clock

from gateway.cli.main import cli
from gateway.clock import wall_clock_ms
from gateway.in_thread import in_this_thread
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.topics import NO_TOPICS
from gateway.settings import Settings
from gateway.settings.store import StoreSettings
from gateway.settings.transaction import TransactionStateStore
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import each_result
from gateway.telemetry.metrics import Registry
from gateway.tests.store_tool.small_directory import tree
from gateway.tests.transaction.world import HOST, ProducerTable, World, without_turns
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.needs import TransactionNeeds
from gateway.transaction.records.half_messages import half_of
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.state_stores.database import OtherDatabase
from gateway.transaction.tables.transaction_tables import TransactionTables
from gateway.transaction.transactions import Transactions

SMALL = StoreSettings(mapped_file_size_commit_log=1_048_576, mapped_file_size_consume_queue=6_000)


def serve(root: Path, wanted: TransactionStateStore, send: int = 0, database: str = "") -> list[int]:
    """A broker's life; what is pending at its end."""
    store = MessageStore(root, SMALL, StoreSurroundings(clock_ms=wall_clock_ms))
    store.open()
    offsets = ConsumerOffsets(
        path=root / "config" / "consumerOffset.json", clock_ms=wall_clock_ms, in_thread=in_this_thread
    )
    offsets.load()
    transactions = Transactions(
        TransactionTables(Settings(), TransactionCounts(Registry())),
        store,
        TransactionNeeds(
            reactor=Clock(),
            clock_ms=wall_clock_ms,
            in_thread=in_this_thread,
            read=without_turns(in_this_thread),
            soon=lambda function: function(),
            producers=ProducerTable(),
            offsets=offsets,
            host=HOST,
            topics=NO_TOPICS,
        ),
        CheckJournal(root / "transaction" / "checks", in_thread=in_this_thread),
        StateChoice.from_settings(
            Settings(store_path_root_dir=root, transaction_state_store=wanted, transaction_database=database)
        ),
    )
    try:
        transactions.rebuild()
        store.listen(lambda outcomes: transactions.half_stored(list(each_result(outcomes))))
        for number in range(send):
            store.append(half_of(World.message(_Now(), f"k{number}", f"g{number % 2}")), lambda result: None)  # type: ignore[arg-type]
        pending = list(transactions.pending)
        transactions.stop()
        offsets.persist_now()
    finally:
        store.close()
    return pending


class _Now:
    """A stand-in for the world that ``World.message`` needs."""

    def now_ms(self) -> int:
        return wall_clock_ms()


def migrate(root: Path, *arguments: str) -> Result:
    size = ["--set", f"mappedFileSizeCommitLog={SMALL.mapped_file_size_commit_log}", "--set", "maxMessageSize=65536"]
    return CliRunner().invoke(cli, ["store", "migrate-transactions", str(root), *arguments, *size])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    assert serve(root, TransactionStateStore.QUEUE, send=3) == [0, 1, 2]
    return root


def test_looking_says_what_there_is_and_moves_nothing(root: Path) -> None:
    result = migrate(root, "--to", "table")
    assert result.exit_code == 1, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("3 pending transactions in the state store 'queue', the oldest ")
    assert lines[1:] == [
        "  2 of producer group g0",
        "  1 of producer group g1",
        "To be done: move them to 'table'",
        "Nothing was moved. To do it, add --apply",
    ]
    assert serve(root, TransactionStateStore.QUEUE) == [0, 1, 2]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("has", list(TransactionStateStore))
def test_looking_writes_nothing_of_the_directory(root: Path, has: TransactionStateStore, killed: bool) -> None:
    if has is not TransactionStateStore.QUEUE:
        assert migrate(root, "--to", str(has), "--apply").exit_code == 0
        assert serve(root, has, send=2) == [0, 1, 2, 3, 4]
    if killed:  # the next start recovers: queues, index and checkpoint are to be made again
        (root / "abort").touch()
        for path in [*(root / "consumequeue").rglob("0*"), root / "checkpoint"]:
            if path.is_file():
                path.unlink()
    before = tree(root)
    result = migrate(root, "--to", "queue")
    count = 3 if has is TransactionStateStore.QUEUE else 5
    assert f"{count} pending transactions in the state store '{has}'" in result.output
    assert tree(root) == before


@pytest.mark.parametrize("wanted", [TransactionStateStore.TABLE, TransactionStateStore.DATABASE])
def test_there_and_back_again(root: Path, wanted: TransactionStateStore) -> None:
    result = migrate(root, "--to", str(wanted), "--apply")
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"Moved. Start the server with transactionStateStore={wanted}\n")
    assert serve(root, wanted, send=2) == [0, 1, 2, 3, 4]
    assert "They are where they should be." in migrate(root, "--to", str(wanted), "--apply").output
    assert migrate(root, "--to", "queue", "--apply").exit_code == 0
    assert serve(root, TransactionStateStore.QUEUE) == [0, 1, 2, 3, 4]


def test_from_one_database_to_another(root: Path, tmp_path: Path) -> None:
    assert migrate(root, "--to", "database", "--apply").exit_code == 0
    dsn = f"sqlite:{tmp_path}/other.db"
    result = migrate(root, "--to", "database", "--dsn", dsn, "--apply")
    assert result.exit_code == 0, result.output
    assert f"gateway.transactionDatabase={dsn}" in result.output
    assert (tmp_path / "other.db").exists()


def test_a_second_move_to_a_database_has_nothing_to_do(root: Path, tmp_path: Path) -> None:
    assert migrate(root, "--to", "database", "--apply").exit_code == 0
    dsn = f"sqlite:{tmp_path}/other.db"
    for told in ("Moved. ", "They are where they should be."):
        result = migrate(root, "--to", "database", "--dsn", dsn, "--apply")
        assert result.exit_code == 0, result.output
        assert "3 pending transactions" in result.output
        assert told in result.output
    assert migrate(root, "--to", "database", "--dsn", dsn).exit_code == 0
    assert serve(root, TransactionStateStore.DATABASE, database=dsn) == [0, 1, 2]


def test_the_database_in_use_is_known_under_another_name(root: Path, tmp_path: Path) -> None:
    assert migrate(root, "--to", "database", "--apply").exit_code == 0
    (tmp_path / "link").symlink_to(root)
    dsn = f"sqlite:{tmp_path}/link/transaction/transactions.db"
    result = migrate(root, "--to", "database", "--dsn", dsn, "--apply")
    assert "They are where they should be." in result.output
    assert serve(root, TransactionStateStore.DATABASE) == [0, 1, 2]
    assert serve(root, TransactionStateStore.DATABASE, database=dsn) == [0, 1, 2]


def test_a_setting_that_is_forgotten_after_a_move_is_named(root: Path, tmp_path: Path) -> None:
    assert migrate(root, "--to", "database", "--apply").exit_code == 0
    dsn = f"sqlite:{tmp_path}/other.db"
    assert migrate(root, "--to", "database", "--dsn", dsn, "--apply").exit_code == 0
    with pytest.raises(OtherDatabase, match=f"set gateway.transactionDatabase={dsn}, or move them with "):
        serve(root, TransactionStateStore.DATABASE)
    result = migrate(root, "--to", "queue", "--apply")
    assert result.exit_code == 2
    assert f"set gateway.transactionDatabase={dsn}" in result.stderr
    back = migrate(root, "--to", "queue", "--set", f"gateway.transactionDatabase={dsn}", "--apply")
    assert "3 pending transactions" in back.output
    assert serve(root, TransactionStateStore.QUEUE) == [0, 1, 2]


def test_the_command_that_a_refused_start_prints_moves_them(root: Path, tmp_path: Path) -> None:
    assert migrate(root, "--to", "database", "--apply").exit_code == 0
    dsn = f"sqlite:{tmp_path}/new place.db"
    moved = migrate(root, "--to", "database", "--dsn", dsn, "--apply")
    assert moved.exit_code == 0, moved.output
    with pytest.raises(OtherDatabase) as refused:
        serve(root, TransactionStateStore.DATABASE)
    command = split(str(refused.value).partition("move them with ")[2])
    assert command[:4] == ["rocketmq-gateway", "store", "migrate-transactions", str(root)]
    result = migrate(root, *command[4:])
    assert result.exit_code == 0, result.output
    assert serve(root, TransactionStateStore.DATABASE) == [0, 1, 2]


def test_moving_a_copy_leaves_the_rows_of_the_original(root: Path, tmp_path: Path) -> None:
    dsn = f"sqlite:{tmp_path}/shared.db"
    assert migrate(root, "--to", "database", "--dsn", dsn, "--apply").exit_code == 0
    copy = tmp_path / "copy"
    copytree(root, copy)
    result = migrate(copy, "--to", "queue", "--set", f"gateway.transactionDatabase={dsn}", "--apply")
    assert result.exit_code == 0, result.output
    assert f"{dsn} keeps its rows" in result.output
    with closing(sqlite3.connect(tmp_path / "shared.db")) as connection:
        assert connection.execute("SELECT count(*) FROM t_transaction").fetchone() == (3,)
    assert serve(copy, TransactionStateStore.QUEUE) == [0, 1, 2]
    assert serve(root, TransactionStateStore.DATABASE, database=dsn) == [0, 1, 2]


def test_a_copy_does_not_move_over_the_rows_of_the_original(root: Path, tmp_path: Path) -> None:
    dsn = f"sqlite:{tmp_path}/shared.db"
    assert migrate(root, "--to", "database", "--dsn", dsn, "--apply").exit_code == 0
    copy = tmp_path / "copy"
    copytree(root, copy)
    assert migrate(copy, "--to", "queue", "--set", f"gateway.transactionDatabase={dsn}", "--apply").exit_code == 0
    assert serve(root, TransactionStateStore.DATABASE, send=2, database=dsn) == [0, 1, 2, 3, 4]
    result = migrate(copy, "--to", "database", "--dsn", dsn, "--apply")
    assert result.exit_code == 2
    assert "has transactions of a copy of this directory" in result.stderr
    assert serve(root, TransactionStateStore.DATABASE, database=dsn) == [0, 1, 2, 3, 4]
    assert serve(copy, TransactionStateStore.QUEUE) == [0, 1, 2]


def test_a_move_out_of_the_directory_that_is_cut_short_may_be_made_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = f"sqlite:{tmp_path}/other.db"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ConsumerOffsets, "persist_now", full)  # the database has the rows, and nobody says so
        result = migrate(root, "--to", "database", "--dsn", dsn, "--apply")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert serve(root, TransactionStateStore.QUEUE) == [0, 1, 2]
    assert migrate(root, "--to", "database", "--dsn", dsn, "--apply").exit_code == 0
    assert serve(root, TransactionStateStore.DATABASE, database=dsn) == [0, 1, 2]


def test_what_a_move_left_behind_in_the_directory_is_told_everything_again(root: Path) -> None:
    assert migrate(root, "--to", "database", "--apply").exit_code == 0
    said = (root / "transaction" / "state-store").read_bytes()
    assert migrate(root, "--to", "queue", "--apply").exit_code == 0
    (root / "transaction" / "state-store").write_bytes(said)  # as somebody who copies files back and forth
    (root / "config" / "consumerOffset.json").unlink()
    assert serve(root, TransactionStateStore.DATABASE) == [0, 1, 2]


def test_a_directory_in_use_is_refused(root: Path) -> None:
    store = MessageStore(root, SMALL, StoreSurroundings(clock_ms=wall_clock_ms))
    store.open()
    try:
        result = migrate(root, "--to", "table", "--apply")
        assert result.exit_code == 2
        assert "is in use" in result.output
    finally:
        store.close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--to", "redis"], "'redis' is not one of"),
        (["--to", "table", "--dsn", "sqlite:/x"], "--dsn names the database to move to"),
        (["--to", "database", "--dsn", "mysql://x"], "--dsn: expected nothing, sqlite:/PATH or postgresql://"),
        (["--to", "database", "--dsn", "postgresql://u:p@h/d"], "a DSN without a password"),
        (
            ["--to", "database", "--dsn", "postgresql://u@127.0.0.1:1/d", "--apply"],
            "PostgreSQL database d at 127.0.0.1",
        ),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_moved(root: Path, arguments: list[str], text: str) -> None:
    result = migrate(root, *arguments)
    assert result.exit_code == 2
    assert text in result.output
    assert serve(root, TransactionStateStore.QUEUE) == [0, 1, 2]


def test_what_is_no_store_directory_is_refused(tmp_path: Path) -> None:
    result = migrate(tmp_path, "--to", "table")
    assert result.exit_code == 2
    assert "is not a store directory" in result.output
