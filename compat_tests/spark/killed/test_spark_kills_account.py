"""The failures that the trials with kills find, tested without Spark and without a gateway."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from compat_tests.spark.driver import Driver
from compat_tests.spark.killed import kills, trials
from compat_tests.spark.killed.kills import Outcome, Report, run_seed, summary
from compat_tests.spark.killed.trials import LOCAL, NOTHING, Comparison, Trial

GAVE_UP = {"failed": "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back"}
GAVE_UP_INITIALIZING = {
    "failed": "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."
}
DEFECT = {"failed": "gateway.spark.errors.CheckpointRefused: it has version 2"}


class FakeDriver:
    """Answers as it is told: None is that it died."""

    master = LOCAL

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers = list(answers)
        self.told: list[str] = []

    def tell(self, verb: str, **order: Any) -> None:
        self.told.append(verb)

    def answer(self, timeout_s: float) -> dict[str, Any] | None:
        return self.answers.pop(0)


class FakeTrial(Trial):
    """A run of which a test says whether something died in it, and how far Spark came."""

    killed = NOTHING
    batches = 0

    def do(self) -> Comparison:
        self.run("archive", is_disturbed=self.killed != NOTHING)
        return Comparison.of(["a", "b", "c"], ["b", "b", "c", "d"])

    def watched(self) -> dict[str, Callable[[], set[Path]]]:
        self.batches += FakeTrial.batches  # more with each look
        return {"a batch is planned": lambda: {Path(str(self.batches))}}

    def _disturb(self) -> str:
        return self.killed


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "SPARK_WAITS_S", 0.0)


def trial(folder: Path, *answers: dict[str, Any] | None) -> FakeTrial:
    return FakeTrial(cast("Driver", FakeDriver(*answers)), folder, 0)


def test_lost_doubled_and_strange_rows_are_told_apart() -> None:
    found = Comparison.of(["a", "b", "c"], ["b", "b", "d"])
    assert found == Comparison(rows=3, lost=("a", "c"), twice=("b",), strange=("d",))


def test_a_run_that_fails_undisturbed_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="CheckpointRefused"):
        trial(tmp_path, DEFECT).do()


def test_a_run_may_fail_after_a_kill(tmp_path: Path) -> None:
    made = trial(tmp_path, DEFECT)
    made.killed = "worker"
    made.do()
    assert made.events == [f"query failed: {DEFECT['failed']}"]


def test_a_run_in_which_nothing_was_hit_may_not_fail(tmp_path: Path) -> None:
    made = trial(tmp_path, DEFECT)
    with pytest.raises(AssertionError, match="CheckpointRefused"):
        made.run("archive", is_disturbed=True)


def test_a_driver_may_not_die_by_itself_even_after_a_kill(tmp_path: Path) -> None:
    made = trial(tmp_path, None)
    made.killed = "worker"
    with pytest.raises(AssertionError, match="the driver died by itself"):
        made.do()


def test_a_run_that_spark_gave_up_before_it_began_is_started_again_and_counted(tmp_path: Path) -> None:
    made = trial(tmp_path, GAVE_UP, GAVE_UP_INITIALIZING, {})
    made.do()
    assert cast("FakeDriver", made.driver).told == ["archive", "archive", "archive"]
    assert made.starts_given_up == 2


def test_spark_may_not_give_up_in_the_middle_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTrial, "batches", 1)
    with pytest.raises(AssertionError, match="in the middle of a batch"):
        trial(tmp_path, GAVE_UP, {}).do()


def test_spark_may_not_give_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "SPARK_WAITS_S", 60.0)
    with pytest.raises(AssertionError, match="gave up at once"):
        trial(tmp_path, GAVE_UP, {}).do()


def test_spark_may_not_give_up_again_and_again(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="could not start Python 10 times"):
        trial(tmp_path, *[GAVE_UP] * trials.STARTS).do()


def test_a_seed_whose_rows_are_wrong_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kills.TRIALS, "archive", FakeTrial)
    outcome = run_seed(cast("Driver", FakeDriver({})), "archive", 7)
    assert (outcome.rows, outcome.lost, outcome.twice, outcome.strange) == (3, 1, 1, 1)
    assert outcome.failure == "1 rows lost: a; 1 rows twice: b; 1 rows strange: d"


def test_a_seed_that_breaks_down_has_failed_and_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kills.TRIALS, "archive", FakeTrial)
    outcome = run_seed(cast("Driver", FakeDriver(DEFECT)), "archive", 7)
    assert outcome.failure.startswith("AssertionError: gateway.spark.errors.CheckpointRefused")
    assert "FAILED" in str(outcome)


def test_a_report_goes_on_where_it_ended_and_is_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    Report(path).add(Outcome("archive", 3, LOCAL, 12.0, rows=70, kills={"gateway": 2, "worker": 1}))
    Report(path).add(Outcome("sink", 3, trials.EXECUTORS, 20.0, rows=120, twice=1, kills={"executor": 1}, failure="1"))
    report = Report(path)
    assert report.has("sink", 3)
    assert not report.has("sink", 4)
    assert summary(report.outcomes).splitlines() == [
        "archive: 1 seeds, 0 of them with executors; 70 rows; lost 0, twice 0, not committed 0; 12 s a seed",
        "sink: 1 seeds, 1 of them with executors; 120 rows; lost 0, twice 1, not committed 0; 20 s a seed",
        "died: executor 1, gateway 2, worker 1",
        "undisturbed runs that Spark gave up before they began: 0",
        "failed: sink 3",
    ]
