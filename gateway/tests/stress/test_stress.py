"""A short run of each kind, and an account that turns red; ``python -m gateway.tests.stress`` goes on for longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.tests.store.small_store import overwrite
from gateway.tests.store_tool.small_directory import run
from gateway.tests.stress.__main__ import main
from gateway.tests.stress.account import Account, number_of
from gateway.tests.stress.files import check_index, check_units
from gateway.tests.stress.load import SHAPE, Plan, Stress, written_settings

SHORT = [
    Plan(seconds=5, queues=8000, open_files=512),
    Plan(seconds=4, queues=2000, open_files=16, seed=2),
    Plan(seconds=3, queues=400, open_files=16, seed=3, extended=True),
]
DONE = {"stored", "read", "searched", "looked up", "statistics", "flushed", "deletions"}


@pytest.mark.parametrize("plan", SHORT, ids=["512 open files", "16 open files", "extensions"])
def test_threads_on_one_store_find_and_leave_everything_right(tmp_path: Path, plan: Plan) -> None:
    account = Stress(tmp_path, plan).run()
    assert (account.complaint_count, account.complaints) == (0, [])
    assert set(account.counts) >= DONE
    result = run("verify", tmp_path, "-c", written_settings(tmp_path))
    assert result.exit_code == 0, result.output


@pytest.fixture
def stressed(tmp_path: Path) -> Stress:
    """A directory of a run that nothing was wrong with; without deletions, so that each queue has its first message."""
    stress = Stress(tmp_path, Plan(seconds=0.2, queues=5, readers=1))
    assert stress.run().complaints == []
    return stress


def again(stress: Stress) -> Account:
    """Return the same account without the findings so far."""
    account = Account(stress.account.names, stress.plan.seed)
    account.known, account.places = stress.account.known, stress.account.places
    return account


def queue_file(stress: Stress, number: int) -> Path:
    topic, queue_id = sorted(stress.account.known)[number]
    return stress.directory / "consumequeue" / topic / str(queue_id) / f"{0:020d}"


def test_a_unit_of_another_queue_is_found_by_the_account_and_by_verify(stressed: Stress) -> None:
    """What a compiled server could do before files were lent for each call."""
    one, other = queue_file(stressed, 0), queue_file(stressed, 1)
    overwrite(one, 0, other.read_bytes()[:20])
    account = again(stressed)
    check_units(stressed.directory, account)
    (complaint,) = account.complaints
    assert complaint.startswith(f"{sorted(account.known)[0]} at 0: {sorted(account.known)[1][0]} ")
    result = run("verify", stressed.directory, "-c", written_settings(stressed.directory))
    assert result.exit_code == 1
    assert f"{one} byte 0 (commit log offset " in result.output
    assert "the unit has commit log offset" in result.output


def test_an_index_entry_of_another_message_is_found_by_the_account_and_by_verify(stressed: Stress) -> None:
    (path,) = (stressed.directory / "index").iterdir()
    entry = SHAPE.entry_position(5)
    overwrite(path, entry, path.read_bytes()[SHAPE.entry_position(9) :][:12])
    account = again(stressed)
    check_index(stressed.directory, SHAPE, account)
    assert account.complaint_count > 0
    result = run("verify", stressed.directory, "-c", written_settings(stressed.directory))
    assert result.exit_code == 1
    assert str(path) in result.output


def test_a_message_in_the_place_of_another_is_found(stressed: Stress) -> None:
    account = again(stressed)
    name, queue = next((name, queue) for name, queue in account.known.items() if len(queue.numbers) > 1)
    queue.numbers[0], queue.numbers[1] = queue.numbers[1], queue.numbers[0]
    check_units(stressed.directory, account)
    assert account.complaint_count == 2
    assert account.complaints[0].startswith(f"{name} at 0: message ")
    assert number_of(b"T 0 17 ...") == 17


def test_the_account_forgets_messages_that_were_deleted_long_ago_and_a_read_of_one_is_found(stressed: Stress) -> None:
    account = again(stressed)
    limit = sorted(offset for _, offset, _ in account.places.values())[len(account.places) // 2]
    account.forget(limit)
    assert account.oldest == account.counts["forgotten"] > 0
    assert sum(len(queue.numbers) for queue in account.known.values()) == len(account.places)
    assert min(offset for _, offset, _ in account.places.values()) == limit
    check_units(stressed.directory, account)
    assert account.complaint_count == account.counts["forgotten"]
    assert "in place of None" in account.complaints[0]


def test_the_command_says_what_was_done(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--minutes", "0.01", "--queues", "20", "--directory", str(tmp_path / "store")])
    assert result.exit_code == 0, result.output
    assert "every unit and every index entry is right" in result.output
    assert not (tmp_path / "store").exists()
