"""A broker that takes a log over believes no state store: it may know records that were cut, and lack those copied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.broker.takeover import CopyMark
from gateway.cli.main import cli
from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC
from gateway.settings.transaction import TransactionStateStore
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.transaction.state_stores.remembered import RememberedStore
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag

QUEUE, TABLE, DATABASE = TransactionStateStore
COMMIT, ROLLBACK = SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK
others = pytest.mark.parametrize("store", [TABLE, DATABASE])


def started(directory: Path, store: TransactionStateStore, start_ms: int | None = None) -> WholeBroker:
    if start_ms is None:
        return WholeBroker(directory, transaction_state_store=store)
    return WholeBroker(directory, start_ms, transaction_state_store=store)


def prepare(broker: WholeBroker, *keys: str) -> None:
    for key in keys:
        properties = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": key}
        answer = broker.send(broker.connect(), body=key.encode(), properties=properties)
        assert answer.code == ResponseCode.SUCCESS


def end(broker: WholeBroker, key: str, outcome: int) -> RemotingCommand:
    [half] = [one for one in broker.messages(HALF_TOPIC) if one.unique_key == key]
    header = EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.commit_log_offset,
        commit_or_rollback=outcome,
        msg_id=key,
    )
    return broker.ask(broker.connect(), RequestCode.END_TRANSACTION, header)


def pending(broker: WholeBroker) -> list[str | None]:
    halves = broker.messages(HALF_TOPIC)
    return [halves[offset].unique_key for offset in broker.parts.transactions.pending]


def shown(broker: WholeBroker) -> list[str | None]:
    return [message.unique_key for message in broker.messages("orders")]


def follow(broker: WholeBroker) -> WholeBroker:
    broker.wait(1)
    return broker


def taken_over(
    directory: Path, before: TransactionStateStore, wanted: TransactionStateStore, *, has_state: bool = True
) -> WholeBroker:
    """A broker that takes over a log in which k0 was rolled back, k1 was committed and k2 waits.

    :param has_state: whether the directory has the state store of the broker that wrote the log.
    """
    broker = started(directory, before)
    prepare(broker, "k0", "k1", "k2")
    end(broker, "k0", ROLLBACK)
    end(broker, "k1", COMMIT)
    follow(broker).stop()
    if not has_state:
        shutil.rmtree(directory / "transaction")
    CopyMark(directory).set()
    return started(directory, wanted, broker.clock())


@others
def test_outcomes_whose_records_were_cut_do_not_count(tmp_path: Path, store: TransactionStateStore) -> None:
    """The old master's state store stays in its directory while its log becomes the new master's."""
    old, log = tmp_path / "old", tmp_path / "log"
    broker = started(old, store)
    prepare(broker, "k0", "k1", "k2")
    follow(broker).stop()
    shutil.copytree(old, log)
    broker = started(old, store, broker.clock())
    end(broker, "k0", COMMIT)
    end(broker, "k1", ROLLBACK)
    prepare(broker, "cut")
    end(broker, "cut", ROLLBACK)
    follow(broker).stop()
    other = started(log, store, broker.clock())
    prepare(other, "k3")
    for _ in range(30):
        other.send(other.connect(), topic="others")
    follow(other).stop()
    shutil.rmtree(log / "transaction")
    shutil.copytree(old / "transaction", log / "transaction")
    CopyMark(log).set()

    taken = started(log, store, other.clock())

    assert pending(taken) == ["k0", "k1", "k2", "k3"]
    assert shown(taken) == []
    for key in ("k0", "k3"):
        assert end(taken, key, COMMIT).code == ResponseCode.SUCCESS
    assert end(taken, "k1", ROLLBACK).code == ResponseCode.SUCCESS
    again = follow(taken).restart()
    assert pending(again) == ["k2"]
    assert shown(again) == ["k0", "k3"]
    again.stop()


@others
@pytest.mark.parametrize("is_crash", [False, True], ids=["stop", "kill"])
def test_a_directory_without_the_state_store_of_its_log_finds_the_outcomes_in_the_log(
    tmp_path: Path, store: TransactionStateStore, is_crash: bool
) -> None:
    """A slave copies a log; it makes no state store."""
    broker = started(tmp_path / "slave", store)
    prepare(broker, "k0", "k1", "k2", "k3")
    end(broker, "k1", ROLLBACK)
    end(broker, "k2", COMMIT)
    follow(broker).stop()
    shutil.rmtree(tmp_path / "slave" / "transaction")
    CopyMark(tmp_path / "slave").set()

    taken = started(tmp_path / "slave", store, broker.clock())

    assert pending(taken) == ["k0", "k3"]
    assert shown(taken) == ["k2"]
    again = taken.crash_image(tmp_path / "killed") if is_crash else taken.restart()
    assert pending(again) == ["k0", "k3"]
    assert end(again, "k0", COMMIT).code == ResponseCode.SUCCESS
    assert shown(again) == ["k2", "k0"]
    again.stop()


@pytest.mark.parametrize(("before", "wanted"), [(QUEUE, TABLE), (QUEUE, DATABASE), (TABLE, QUEUE), (DATABASE, TABLE)])
def test_outcomes_count_whatever_state_store_the_log_was_written_with(
    tmp_path: Path, before: TransactionStateStore, wanted: TransactionStateStore
) -> None:
    taken = taken_over(tmp_path / "log", before, wanted)

    assert pending(taken) == ["k2"]
    taken.turn()  # missing op records are written
    killed = taken.crash_image(tmp_path / "killed")
    assert pending(killed) == ["k2"]
    assert shown(killed) == ["k1"]
    assert end(killed, "k2", COMMIT).code == ResponseCode.SUCCESS
    assert pending(follow(killed).restart()) == []


@others
def test_a_slave_without_a_state_store_finds_the_outcomes_of_a_master_that_has_one(
    tmp_path: Path, store: TransactionStateStore
) -> None:
    """The records of such outcomes are hidden, and only they say that a message was rolled back."""
    taken = taken_over(tmp_path / "log", store, QUEUE, has_state=False)

    assert pending(taken) == ["k2"]
    assert shown(taken) == ["k1"]
    taken.stop()


@others
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_kill_before_the_missing_op_records_are_written_changes_no_outcome(
    tmp_path: Path, store: TransactionStateStore, deaths: int
) -> None:
    taken = taken_over(tmp_path / "log", store, QUEUE, has_state=False)
    assert not CopyMark(tmp_path / "log").is_set
    assert len(taken.messages(OP_HALF_TOPIC)) == 0

    for death in range(deaths):
        taken = taken.crash_image(tmp_path / f"killed{death}")

    assert pending(taken) == ["k2"]
    assert shown(taken) == ["k1"]
    again = follow(follow(taken)).restart()  # by now the op records are written, and the log need not be searched
    assert pending(again) == ["k2"]
    assert not RememberedStore(again.directory / "transaction").load().is_searched
    again.stop()


@others
def test_a_move_to_another_store_finds_the_outcomes_whose_op_records_are_missing(
    tmp_path: Path, store: TransactionStateStore
) -> None:
    taken = taken_over(tmp_path / "log", store, QUEUE)
    killed = tmp_path / "killed"
    shutil.copytree(taken.directory, killed)
    taken.stop()

    size = (killed / "commitlog" / f"{0:020d}").stat().st_size
    command = ["store", "migrate-transactions", str(killed), "--to", str(TABLE), "--apply"]
    sizes = ["--set", f"mappedFileSizeCommitLog={size}", "--set", "maxMessageSize=65536"]
    result = CliRunner().invoke(cli, [*command, *sizes])
    assert result.output.startswith("1 pending transactions in the state store 'queue'"), result.output
    assert result.exit_code == 0
    assert not RememberedStore(killed / "transaction").load().is_searched
    moved = started(killed, TABLE, taken.clock())
    assert pending(moved) == ["k2"]
    moved.stop()
