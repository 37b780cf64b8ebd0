"""A few faults of a pair of gateways under load, and proof that the verdict notices what a fault must not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.environment import Patience, stalled_s
from compat_tests.java_client import JavaClient
from compat_tests.replica_faults.logs import LogComparison, log_end
from compat_tests.replica_faults.members import Kind
from compat_tests.replica_faults.plan import Trouble, TroublePlan
from compat_tests.replica_faults.run import WantedRun, run_faults
from compat_tests.replica_faults.table import lines, write
from compat_tests.replica_faults.verdict import Verdict, judge
from compat_tests.soak.streams import commits

SEED = 3
TOLD = [(0, 0, 0), (1, 1, 0), (2, 0, 1)]


def test_nothing_acknowledged_is_lost_when_a_master_its_slave_or_their_network_fails(
    newest_client: JavaClient, tmp_path: Path
) -> None:
    troubles = (Trouble.KILL, Trouble.ONE_WAY, Trouble.LOST_MASTER)
    wanted = WantedRun(
        kinds=(Kind.OURS, Kind.OURS), seed=SEED, directory=tmp_path / "pair", faults=len(troubles), troubles=troubles
    )
    outcome = run_faults(newest_client, wanted, print)
    write(outcome, tmp_path / "outcome.json")
    assert outcome.findings.is_clean, "\n".join([*lines([tmp_path / "outcome.json"]), *outcome.findings.sentences])
    assert set(outcome.faults) == set(troubles)
    assert outcome.verdict.acknowledged > 100
    assert outcome.transactions.acknowledged > 20


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (TOLD, Verdict(3)),
        ([*TOLD, (9, 1, 1)], Verdict(3)),  # sent, and its answer never came
        (TOLD[1:], Verdict(3, lost=1)),
        ([(0, 0, 5), *TOLD[1:]], Verdict(3, moved=1)),
        ([*TOLD, (0, 0, 5)], Verdict(3, doubled=1)),
        ([*TOLD, (1, 0, 5)], Verdict(3, resent=1)),
        ([*TOLD, (1, 0, 5), (1, 0, 6)], Verdict(3, doubled=1)),
    ],
)
def test_each_kind_of_wrong_place_is_counted(found: list[tuple[int, int, int]], expected: Verdict) -> None:
    assert judge(TOLD, found, lambda number: 2 if number == 1 else 1) == expected


def test_transactions_are_judged_by_their_decision() -> None:
    assert [commits(number) for number in range(6)] == [True, False, True, True, False, False]
    told = [(number, 0, 0) for number in range(6)]
    right = [(0, 0, 0), (2, 0, 1), (3, 1, 0)]
    assert judge(told, right, lambda _: 1, commits) == Verdict(6)
    assert judge(told, right[1:], lambda _: 1, commits) == Verdict(6, lost=1)
    assert judge(told, [*right, (1, 1, 1)], lambda _: 1, commits) == Verdict(6, flipped=1)
    assert judge(told, [*right, (0, 1, 1)], lambda _: 1, commits) == Verdict(6, doubled=1)


def test_logs_are_compared_byte_by_byte_over_files(tmp_path: Path) -> None:
    one, other = (store(tmp_path / name, b"abcdefgh" + b"ijkl") for name in ("one", "other"))
    comparison = LogComparison()
    assert log_end(one) == 12
    assert comparison.first_difference(one, other, 12) is None
    store(other, b"abXdefgh" + b"ijkX")
    assert comparison.first_difference(one, other, 12) is None, "what was equal is not read again"
    comparison.begin_again()
    assert comparison.first_difference(one, other, 12) == 2
    store(other, b"abcdefgh" + b"ijkX")
    assert comparison.first_difference(one, other, 12) == 11
    store(other, b"abcdefgh")
    assert comparison.first_difference(one, other, 12) == 8
    (one / "commitlog" / f"{0:020}").unlink()
    store(other, b"abXdefgh" + b"ijkl")
    assert comparison.first_difference(one, other, 12) is None, "a log that begins later lacks nothing"


def test_a_plan_has_each_fault_before_one_comes_again_and_is_drawn_from_its_seed_alone() -> None:
    plans = [TroublePlan(seed) for seed in (1, 1, 2)]
    drawn = [[plan.next_round() for _ in range(50)] for plan in plans]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {round_.trouble for round_ in drawn[0][: len(Trouble)]} == set(Trouble)


def test_the_time_in_which_the_machine_let_everybody_wait_is_left_out_of_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stalled_s(tmp_path) == 0, "a system that does not count it"
    for name, waited_us in (("cpu", 7_250_000), ("io", 250_000)):
        (tmp_path / name).write_text(f"some avg10=65.75 avg60=59.20 avg300=40.94 total={waited_us}\nfull total=1\n")
    assert stalled_s(tmp_path) == 7.25
    now = {"passed": 0.0, "stalled": 0.0}
    monkeypatch.setattr("compat_tests.environment.time.monotonic", lambda: now["passed"])
    monkeypatch.setattr("compat_tests.environment.stalled_s", lambda: now["stalled"])
    patience, impatience = Patience(10), Patience(10, share=0)
    now |= {"passed": 12, "stalled": 6}
    assert (patience.counted_s, patience.is_over, impatience.is_over) == (6, False, True)
    now |= {"passed": 44, "stalled": 44}
    assert (patience.counted_s, patience.is_over) == (11, True), "a quarter counts all the same"


def store(directory: Path, log: bytes) -> Path:
    """A store whose log files have eight bytes."""
    folder = directory / "commitlog"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for begin in range(0, len(log), 8):
        (folder / f"{begin:020}").write_bytes(log[begin : begin + 8].ljust(8, b"\0"))
    return directory
