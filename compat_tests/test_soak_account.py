"""The soak's accounts turn red for each thing that must not be; no broker, no Docker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from compat_tests.soak.account import Account, Entry
from compat_tests.soak.command import main
from compat_tests.soak.failing_files import FailingFiles, Fired, Order
from compat_tests.soak.findings import SENTENCES_PER_KIND, Findings, Wrong
from compat_tests.soak.plan import Fault, Plan
from compat_tests.soak.streams import commits
from wire.compiled import IS_COMPILED

# Three messages in queue 0, two in queue 1: number, queue, offset.
STORED: tuple[Entry, ...] = ((0, 0, 0), (2, 0, 1), (4, 0, 2), (1, 1, 0), (3, 1, 1))


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """Replace the fixture of the other tests: no engine is needed."""


def read(account: Account, entries: Iterable[Entry], *, start: int = 0, ends: tuple[int, ...]) -> None:
    for queue, end in enumerate(ends):
        found = [(offset, number) for number, at, offset in entries if at == queue]
        account.read(queue, 0, start, end, found)


def plain(findings: Findings, shards: int = 0) -> Account:
    """All messages were sent, acknowledged, read and delivered once."""
    account = Account("plain", findings, queues=2, shards=shards)
    account.acknowledge(STORED)
    account.deliver(STORED)
    read(account, STORED, ends=(3, 2))
    return account


def transactional(findings: Findings, found: Iterable[int]) -> Account:
    """Six half messages were acknowledged; the committed ones among them are 0, 2 and 3."""
    account = Account("transactions", findings, queues=1, commits=commits)
    account.acknowledge((number, -1, -1) for number in range(6))
    entries = [(number, 0, offset) for offset, number in enumerate(found)]
    account.deliver(entries)
    read(account, entries, ends=(len(entries),))
    return account


def test_a_run_in_which_nothing_went_wrong_is_clean() -> None:
    findings = Findings()
    account = plain(findings)
    account.settle()
    assert findings.is_clean, findings.sentences
    assert (account.acknowledged, account.found) == (5, 5)
    assert account.is_complete()


def lose(account: Account) -> None:
    account.acknowledge([(5, 1, 2)])
    read(account, (), start=3, ends=(3, 2))


def lose_what_was_read(account: Account) -> None:
    read(account, STORED[1:], ends=(3, 2))


def put_another_there(account: Account) -> None:
    read(account, [(9, 0, 0), *STORED[1:]], ends=(3, 2))


def acknowledge_at_another_place(account: Account) -> None:
    account.acknowledge([(9, 1, 1)])


def store_twice(account: Account) -> None:
    read(account, [*STORED, (2, 1, 2)], ends=(3, 3))


def acknowledge_twice(account: Account) -> None:
    account.acknowledge([(2, 1, 1)])


def shorten_a_queue(account: Account) -> None:
    read(account, STORED[:2] + STORED[3:], ends=(2, 2))


def leave_a_hole(account: Account) -> None:
    read(account, [*STORED, (7, 0, 4)], ends=(5, 2))


def deliver_another(account: Account) -> None:
    account.deliver([(8, 0, 0)])


def deliver_what_never_came(account: Account) -> None:
    account.deliver([(8, 0, 70)])


def deliver_from_nowhere(account: Account) -> None:
    account.deliver([(8, 9, 0)])


def forget_the_consumer(account: Account) -> None:
    account.acknowledge([(5, 1, 2)])
    read(account, [*STORED, (5, 1, 2)], ends=(3, 3))


def store_a_stranger(account: Account) -> None:
    read(account, [*STORED, (-1, 1, 2)], ends=(3, 3))


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (lose, Wrong.LOST),
        (lose_what_was_read, Wrong.LOST),
        (put_another_there, Wrong.CHANGED),
        (acknowledge_at_another_place, Wrong.LOST),
        (store_twice, Wrong.DOUBLED),
        (acknowledge_twice, Wrong.DOUBLED),
        (shorten_a_queue, Wrong.BACKWARDS),
        (shorten_a_queue, Wrong.LOST),
        (leave_a_hole, Wrong.HOLE),
        (deliver_another, Wrong.PHANTOM),
        (deliver_what_never_came, Wrong.PHANTOM),
        (deliver_from_nowhere, Wrong.PHANTOM),
        (forget_the_consumer, Wrong.MISSED),
        (store_a_stranger, Wrong.CORRUPT),
    ],
)
def test_each_harm_is_found_under_its_name(harm: Callable[[Account], None], kind: Wrong) -> None:
    findings = Findings()
    account = plain(findings)
    account.check()
    assert findings.is_clean, findings.sentences
    harm(account)
    account.settle()
    assert findings.counts[kind] >= 1, findings.sentences


def test_a_rolled_back_transaction_that_is_read_is_flipped() -> None:
    findings = Findings()
    transactional(findings, found=(0, 2, 1, 3)).settle()
    assert findings.counts == {Wrong.FLIPPED: 1}
    assert "transaction 1 was rolled back" in findings.sentences[0]


def test_a_committed_transaction_that_is_nowhere_is_lost() -> None:
    findings = Findings()
    account = transactional(findings, found=(0, 3))
    assert not account.is_complete()
    account.settle()
    assert findings.counts == {Wrong.LOST: 1}
    assert "transaction 2 " in findings.sentences[0]


def test_a_transaction_applied_twice_is_doubled() -> None:
    findings = Findings()
    transactional(findings, found=(0, 2, 3, 2)).settle()
    assert findings.counts == {Wrong.DOUBLED: 1}


def test_all_commits_and_no_rollback_are_clean() -> None:
    findings = Findings()
    account = transactional(findings, found=(3, 0, 2))
    account.settle()
    assert findings.is_clean, findings.sentences
    assert (account.committed, account.told_rolled_back) == (3, 3)


def test_what_a_client_sent_twice_may_be_stored_twice_and_is_counted_apart() -> None:
    findings = Findings()
    account = plain(findings)
    account.attempted(2, 2)
    twice = [*STORED, (2, 1, 2)]
    account.deliver([(2, 1, 2)])
    read(account, twice, ends=(3, 3))
    account.settle()
    assert findings.is_clean, findings.sentences
    assert account.repeated_by_client == 1

    read(account, [*twice, (2, 1, 3)], ends=(3, 4))
    account.check_copies()
    assert findings.counts[Wrong.DOUBLED] == 1, "two attempts cannot make three copies"


def test_an_attempt_that_is_told_after_the_reading_still_counts() -> None:
    findings = Findings()
    account = plain(findings)
    read(account, [*STORED, (2, 1, 2)], ends=(3, 3))
    account.check()
    account.attempted(2, 2)
    account.check_copies()
    assert findings.is_clean, findings.sentences


def test_a_message_deleted_after_it_was_read_is_not_lost() -> None:
    findings = Findings()
    account = plain(findings)
    account.check()
    account.read(0, 2, 2, 3, [(2, 4)])
    account.read(1, 1, 1, 2, [(1, 3)])
    account.settle()
    assert findings.is_clean, findings.sentences


def test_a_message_deleted_before_it_was_read_is_counted_and_not_judged() -> None:
    findings = Findings()
    account = Account("plain", findings, queues=1)
    account.acknowledge([(0, 0, 0), (1, 0, 1)])
    account.read(0, 1, 1, 2, [(1, 1)])
    account.check()
    assert findings.is_clean, findings.sentences
    assert account.expired_unread == 1


def test_orderly_messages_of_a_shard_lie_in_the_order_of_their_sends() -> None:
    findings = Findings()
    account = Account("orderly", findings, queues=1, shards=2)
    account.acknowledge([(0, 0, 1), (2, 0, 0), (1, 0, 2), (3, 0, 3)])
    account.settle()
    assert findings.counts[Wrong.DISORDERED] == 1
    assert "message 2 at 0/0 was sent after 0 at 0/1" in "".join(findings.sentences)


def test_only_the_first_of_many_findings_are_told_in_words() -> None:
    findings = Findings()
    for number in range(100):
        findings.add(Wrong.LOST, f"message {number}")
    assert findings.counts[Wrong.LOST] == 100
    assert len(findings.sentences) == SENTENCES_PER_KIND


# -- the plan and the failing disk ----------------------------------------------------------------------------


def test_a_seed_gives_the_same_rounds_and_each_fault_comes_once_first() -> None:
    plans = [Plan(seed, tuple(Fault)) for seed in (7, 7, 8)]
    first, again, other = [[plan.next_round() for _ in range(40)] for plan in plans]
    assert first == again
    assert first != other
    assert {round_.fault for round_ in first[: len(Fault)]} == set(Fault)


def test_the_first_disk_to_fail_fails_at_a_sync_of_the_log() -> None:
    plan = Plan(3, (Fault.EIO,))
    orders = [plan.next_round().order for _ in range(6)]
    assert (orders[0].operations, orders[0].part) == (("fdatasync",), "/commitlog/")
    assert len({(order.operations, order.part) for order in orders}) == 6


def test_only_wanted_faults_are_planned() -> None:
    plan = Plan(1, (Fault.KILL, Fault.EIO))
    assert {plan.next_round().fault for _ in range(50)} == {Fault.KILL, Fault.EIO}


def test_a_disk_fails_at_the_call_it_was_told_and_once(tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    files = FailingFiles(order)
    fd = files.open(tmp_path / "commitlog-file", create=True)
    files.pwrite(fd, b"before", 0)
    Order("EIO", ("pwrite",), after=2, part="commitlog").write(order)
    files.pwrite(fd, b"first!", 0)
    with pytest.raises(OSError, match=r"Input/output error"):
        files.pwrite(fd, b"second", 0)
    files.pwrite(fd, b"third!", 0)
    assert Fired.read(order) == Fired("pwrite", str(tmp_path / "commitlog-file"))
    assert files.pread(fd, 6, 0) == b"third!"
    files.close(fd)


def test_a_failed_sync_loses_what_was_written_since_the_last_one(tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    files = FailingFiles(order)
    fd = files.open(tmp_path / "file", create=True)
    files.pwrite(fd, b"safe", 0)
    files.fdatasync(fd)
    files.pwritev(fd, [b"not ", b"safe"], 4)
    Order("EIO", ("fdatasync",), after=1).write(order)
    with pytest.raises(OSError, match=r"Input/output error"):
        files.fdatasync(fd)
    files.fdatasync(fd)
    assert files.pread(fd, 12, 0) == b"safe" + bytes(8)
    files.close(fd)


def test_a_disk_that_turned_read_only_refuses_every_change(tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    files = FailingFiles(order)
    fd = files.open(tmp_path / "file", create=True)
    Order("EROFS", ("pwrite",), after=1, lasting=True).write(order)
    for change in (
        lambda: files.pwrite(fd, b"x", 0),
        lambda: files.truncate(fd, 10),
        lambda: files.fdatasync(fd),
        lambda: files.open(tmp_path / "new", create=True),
        lambda: files.unlink(tmp_path / "file"),
        lambda: files.rename(tmp_path / "file", tmp_path / "new"),
    ):
        with pytest.raises(OSError, match=r"Read-only file system"):
            change()
    assert files.pread(fd, 1, 0) == b""
    files.close(fd)


@pytest.mark.skipif(IS_COMPILED, reason="it is compiled")
def test_a_soak_that_is_meant_to_be_compiled_does_not_run_interpreted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--compiled"]) == 2
    assert "not compiled" in capsys.readouterr().err
