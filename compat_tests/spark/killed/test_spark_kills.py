"""A seed of `python -m compat_tests.spark.killed.kills`, which runs as many as are wanted, also of the sink."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from compat_tests.spark.driver import Driver
from compat_tests.spark.killed.kills import run_seed
from compat_tests.spark.killed.trials import LOCAL


def test_kills_at_any_point_neither_lose_nor_double_what_was_committed(tmp_path: Path) -> None:
    with closing(Driver(LOCAL, tmp_path / "spark.log")) as driver:
        outcome = run_seed(driver, "archive", 4)
    assert not outcome.failure, str(outcome)
    assert outcome.kills, "something died"
    assert outcome.rows
